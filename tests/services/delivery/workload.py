"""Random logs of the router: events, endpoints and subscriptions that come and go, rows that break rules, repeats."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.services.delivery.reference import Row, Sent

TYPES: Final = ("order.placed", "order.placed.eu", "order.shipped", "order", "user.created", "orders")
WANTED: Final = ("*", "order.*", "order.placed", "order.placed.*", "user.*", "user.created", "orders", "order")
TENANTS: Final = ("t1", "t2", "t3")
DEPARTMENTS: Final = ("d1", "d2")
OWNERS: Final = ("eve", "bob")
ENDPOINTS: Final = [f"e{n}" for n in range(4)]
SUBSCRIPTIONS: Final = [f"s{n}" for n in range(8)]
PLAIN: Final = "plain"
TOPICS: Final = ("orders", "events.a", "events.b", PLAIN)  # in the order of the configuration
STATUSES: Final = ("NEW", "OPEN", 1, 1.0, True, None, "1")
DEDUP_MS: Final = 2_000
BAD_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"url": "http://a.example/"}, {"owner": 7}, {"headers": {"Host": "x"}}, {"maxInFlight": 0}, {"deleted": "no"},
]  # fmt: skip
BAD_SUBSCRIPTIONS: Final[list[dict[str, Any]]] = [
    {"types": "order.placed"}, {"types": []}, {"types": ["order*"]}, {"scope": []}, {"scope": [{"tenants": "t1"}]},
    {"scope": [{"tenant": "t1", "departments": []}]}, {"filter": []}, {"filter": {"a": {"b": 1}}}, {"mode": "bulk"},
    {"active": 1}, {"subscriptionId": "other"}, {"types": [f"t{n}" for n in range(1_001)]},
]  # fmt: skip


@dataclass
class Log:
    """`records`: all of them in the order in which the broker received them."""

    records: list[Row | Sent] = field(default_factory=list)

    @property
    def events(self) -> list[Sent]:
        return [its for its in self.records if isinstance(its, Sent)]

    @property
    def endpoints(self) -> list[Row]:
        return [its for its in self.records if isinstance(its, Row) and its.key in ENDPOINTS]

    @property
    def subscriptions(self) -> list[Row]:
        return [its for its in self.records if isinstance(its, Row) and its.key in SUBSCRIPTIONS]


def value_of(row: Row) -> bytes | None:
    return None if row.fields is None else json.dumps(row.fields).encode()


class Workload:
    """Makes records. Their places are for whoever writes them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 1_000
        self.sent: list[Sent] = []

    def log(self, count: int) -> Log:
        log = Log()
        for key in [*ENDPOINTS, *SUBSCRIPTIONS]:
            log.records.append(self.row(key))
        for _ in range(count):
            self.now += self.chance.choice((0, 0, 1, 7, 150))
            log.records.append(self.event() if self.chance.random() < 0.7 else self.row())
        return log

    def row(self, key: str = "") -> Row:
        key = key or self.chance.choice([*ENDPOINTS, *SUBSCRIPTIONS])
        if self.chance.random() < 0.08:
            return Row(key, self.now, 0, 0, None)
        fields = self.endpoint(key) if key in ENDPOINTS else self.subscription(key)
        is_valid = self.chance.random() > 0.12
        if not is_valid:
            fields |= self.chance.choice(BAD_ENDPOINTS if key in ENDPOINTS else BAD_SUBSCRIPTIONS)
        return Row(key, self.now, 0, 0, fields, is_valid)

    def endpoint(self, key: str) -> dict[str, Any]:
        chance = self.chance
        fields: dict[str, Any] = {"endpointId": key, "owner": self.owner(), "url": "https://a.example/hook"}
        if chance.random() < 0.15:
            fields["deleted"] = True
        if chance.random() < 0.2:
            fields["paused"] = True
        return fields

    def subscription(self, key: str) -> dict[str, Any]:
        chance = self.chance
        fields: dict[str, Any] = {
            "subscriptionId": key, "endpointId": chance.choice([*ENDPOINTS, "e-none"]), "owner": self.owner(),
            "types": chance.sample(WANTED, chance.choice((1, 1, 2, 3))),
        }  # fmt: skip
        if chance.random() < 0.6:
            parts = [{"tenant": tenant} for tenant in chance.choices(TENANTS, k=chance.choice((1, 1, 2)))]
            fields["scope"] = [part | self.departments() for part in parts]
        elif chance.random() < 0.5:
            fields["scope"] = "all"
        if chance.random() < 0.4:
            fields["filter"] = {"status": chance.choice([*STATUSES, chance.sample(STATUSES, 3)])}
        if chance.random() < 0.15:
            fields["active"] = False
        return fields

    def departments(self) -> dict[str, Any]:
        if self.chance.random() < 0.5:
            return {}
        return {"departments": self.chance.sample(DEPARTMENTS, self.chance.choice((1, 2)))}

    def owner(self) -> str:
        return self.chance.choice((OWNERS[0], *OWNERS[:1] * 3, OWNERS[1]))

    def event(self) -> Sent:
        chance = self.chance
        if self.sent and chance.random() < 0.2:
            again = replace(chance.choice(self.sent[-80:]), time=self.now)
        else:
            again = self.new_event()
        self.sent.append(again)
        return again

    def new_event(self) -> Sent:
        chance = self.chance
        number = chance.randrange(len(TOPICS))
        id, source, type = f"id-{len(self.sent)}", chance.choice(("", "shop")), chance.choice(("", *TYPES))
        tenant, department = chance.choice((None, *TENANTS)), chance.choice((None, *DEPARTMENTS))
        status = chance.choice([*STATUSES, [1], {"a": 1}])
        document: Any = chance.choice(({"status": status, "n": len(self.sent)}, {"other": 1}, ["status"]))
        if TOPICS[number] == PLAIN:
            meta = {"id": id, "type": type, "tenant": tenant, "department": department}
            document = {"status": status, "meta": meta}
        return Sent(
            TOPICS[number], 0, 0, self.now, id, json.dumps(document).encode(), source, type, tenant, department,
            chance.choice(("", "k1", "k2")), number,
        )  # fmt: skip


def headers_of(e: Sent) -> dict[str, bytes | None]:
    """Returns the headers of its Kafka record. The topic PLAIN has all but the source in the body."""
    if e.topic == PLAIN:
        return {"origin": e.source.encode()} if e.source else {}
    given = {"id": e.id, "source": e.source, "type": e.type, "tenant": e.tenant, "department": e.department}
    return {"ce_specversion": b"1.0", **{f"ce_{name}": its.encode() for name, its in given.items() if its}}
