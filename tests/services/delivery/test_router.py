"""The rules of the router, one by one (docs/delivery.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from moneystate.deliver.breaker import Breaker, Status
from moneystate.deliver.status_events import Kind, StatusEvent, headers_of, tenant_of, to_json
from moneystate.errors import ServiceError
from moneystate.testing import Bench
from services.delivery.config import HOUR_MS, Config, Events
from services.delivery.records import Delivery
from services.delivery.service import DeliveryService

S = 1_000


class Router:
    """On a bench, with an endpoint `e`."""

    def __init__(self, *cloud_events: str, events: tuple[Events, ...] = (), **settings: Any) -> None:
        topics = cloud_events or ("orders",)
        self.made = DeliveryService(Config(cloud_events=topics if not events else (), events=events, **settings))
        self.bench = Bench(self.made.service, partitions=1)
        self.endpoint("e")

    def endpoint(self, id: str, at_ms: int = S, **fields: Any) -> None:
        row = {"endpointId": id, "owner": "eve", "url": "https://a.example/hook", **fields}
        self.bench.rows(self.made.endpoints, {id: json.dumps(row).encode()}, arrival_ms=at_ms)

    def subscribe(self, id: str, at_ms: int = S, **fields: Any) -> None:
        row = {"subscriptionId": id, "endpointId": "e", "owner": "eve", "types": ["*"], **fields}
        self.bench.rows(self.made.subscriptions, {id: json.dumps(row).encode()}, arrival_ms=at_ms)

    def send(
        self, id: str = "1", body: bytes = b"{}", key: str | None = None, topic: str = "orders", at_ms: int = 2 * S,
        headers: Mapping[str, bytes | None] | None = None, **attributes: str,
    ) -> None:  # fmt: skip
        given = {"id": id, **attributes} if id else attributes
        sent: dict[str, bytes | None] = {f"ce_{name}": value.encode() for name, value in given.items()}
        self.bench.send_raw(topic, body, key=key, headers={**sent, **(headers or {})}, timestamp_ms=at_ms)

    def out(self) -> list[Delivery]:
        return self.bench.out(self.made.deliveries)

    def got(self) -> list[tuple[str, str]]:
        return [(d.event_id, d.subscription_id) for d in self.out()]


def test_a_delivery_has_the_event_and_the_places_of_its_rows() -> None:
    router = Router()
    router.endpoint("e")
    router.subscribe("s")
    headers = {"content-type": b"application/json; charset=utf-8", "ce_subject": b"x/1", "other": b"no"}
    router.send("7", b' {"n": 1}\n', "k", headers=headers, source="shop", type="order.placed", department="d")
    (d,) = router.out()
    assert d.delivery_id == "msg_" + hashlib.sha256(b'["s","orders",0,0,"7"]').hexdigest()
    assert (d.endpoint_id, d.owner, d.endpoint_row.offset, d.subscription_row.offset) == ("e", "eve", 1, 0)
    assert (d.topic, d.partition, d.offset, d.time, d.order_key) == ("orders", 0, 0, 2 * S, "k")
    assert (d.event_id, d.source, d.type, d.tenant, d.department) == ("7", "shop", "order.placed", None, "d")
    assert (d.content_type, d.extensions) == ("application/json; charset=utf-8", {"subject": "x/1"})
    assert d.body == b' {"n": 1}\n'
    assert router.bench.keyed(router.made.deliveries) == [("e", d)]
    router.bench.end()


def test_the_key_is_tenant_else_kafka_key_else_id() -> None:
    router = Router()
    router.subscribe("s")
    router.send("1", key="k", tenant="t")
    router.send("2", key="k")
    router.send("3")
    router.bench.send_raw("orders", b"{}", key=b"\xff\x00", headers={"ce_id": b"4"}, timestamp_ms=2 * S)
    assert [d.order_key for d in router.out()] == ["t", "k", "3", "ff00"]


def test_the_type_is_that_of_the_topic_unless_the_event_has_one() -> None:
    router = Router()
    router.subscribe("topic", types=["orders"])
    router.subscribe("own", types=["order.placed"])
    router.send("1")
    router.send("2", type="order.placed")
    assert router.got() == [("1", "topic"), ("2", "own")]


@pytest.mark.parametrize(
    ("wanted", "type", "is_match"),
    [
        ("order.placed", "order.placed", True),
        ("order.placed", "order.placed.eu", False),
        ("order.*", "order.placed.eu.north", True),
        ("order.*", "order", False),
        ("order.*", "orders.placed", False),
        ("*", "any", True),
        ("a.b.*", "a.b.*", True),
        (".".join("abcdefghijklmnop") + ".*", ".".join("abcdefghijklmnopqrst"), True),
    ],
)
def test_types(wanted: str, type: str, is_match: bool) -> None:
    router = Router()
    router.subscribe("s", types=[wanted])
    router.send("1", type=type)
    assert bool(router.got()) is is_match


def test_scopes() -> None:
    router = Router()
    router.subscribe("all", scope="all")
    router.subscribe("t", scope=[{"tenant": "t"}])
    router.subscribe("t-d", scope=[{"tenant": "t", "departments": ["d", "d2"]}])
    router.subscribe("u", scope=[{"tenant": "u"}, {"tenant": "t", "departments": ["x"]}])
    router.send("1")
    router.send("2", tenant="t")
    router.send("3", tenant="t", department="d")
    router.send("4", tenant="u", department="d")
    router.send("5", department="d")
    assert router.got() == [
        ("1", "all"), ("2", "all"), ("2", "t"), ("3", "all"), ("3", "t"), ("3", "t-d"), ("4", "all"), ("4", "u"),
        ("5", "all"),
    ]  # fmt: skip


def test_an_attribute_cannot_pretend_to_be_another_one() -> None:
    router = Router()
    router.subscribe("dept", scope=[{"tenant": "t", "departments": ["d"]}])
    router.subscribe("long", scope=[{"tenant": "td"}])
    router.send("1", type="orders\x00Ttd")
    router.send("2", tenant="t\x00D1:td")
    router.send("3", tenant="1:td")
    assert router.got() == []


@pytest.mark.parametrize(
    ("wanted", "body", "is_match"),
    [
        ({"n": 1}, b'{"n":1.0}', True),
        ({"n": 0.1}, b'{"n":1e-1}', True),
        ({"n": 9007199254740993}, b'{"n":9007199254740992}', False),
        ({"n": 1}, b'{"n":true}', False),
        ({"n": True}, b'{"n":1}', False),
        ({"n": "1"}, b'{"n":1}', False),
        ({"n": None}, b'{"n":null}', True),
        ({"n": None}, b"{}", False),
        ({"n": [1, "a"]}, b'{"n":"a"}', True),
        ({"n": [1, "a"]}, b'{"n":["a"]}', False),
        ({"n": "\x00"}, b'{"n":[]}', False),
        ({"n": 1, "m": 2}, b'{"n":1,"m":2,"o":3}', True),
        ({"n": 1, "m": 2}, b'{"n":1}', False),
        ({"n": 1}, b'[{"n":1}]', False),
        ({"n": 1}, b'{"n":1e99999999999999999999}', False),
        ({}, b"7", True),
    ],
)
def test_filters(wanted: dict[str, Any], body: bytes, is_match: bool) -> None:
    router = Router()
    router.subscribe("s", filter=wanted)
    router.send("1", body)
    assert bool(router.got()) is is_match


def test_what_is_no_event_becomes_a_dead_letter() -> None:
    router = Router()
    router.subscribe("s")
    for body in (b"{", b"", b"\xff", b"[NaN]", b"[" * 100_000, b"{} {}"):
        router.send("1", body)
    router.send("")
    router.send("1", headers={"ce_tenant": b"\xff"})
    router.bench.send_raw("orders", None, key="k", headers={"ce_id": b"1"}, timestamp_ms=2 * S)
    assert router.got() == []
    assert router.bench.dead_letters() == [*["malformed"] * 6, "no_id", "malformed", "null_value"]
    router.bench.end()


def test_attributes_in_fields_and_other_headers() -> None:
    plain = Events("orders", "order.id", "header:origin", "kind", "customer", "order.part")
    router = Router(events=(plain,))
    router.subscribe("s")
    body = b'{"order":{"id":17,"part":"p"},"kind":"placed","customer":null}'
    router.send("ignored", body, headers={"origin": b"shop"})
    router.send("", b'{"order":{"id":"18"},"customer":"c"}')
    router.send("", b'{"order":{"id":1.5}}')
    router.send("", b'{"order":7}')
    router.send("", b'{"order":{"id":"\\ud800"}}')
    assert [(d.event_id, d.source, d.type, d.tenant, d.department) for d in router.out()] == [
        ("17", "shop", "placed", None, "p"), ("18", "", "orders", "c", None)
    ]  # fmt: skip
    assert router.bench.dead_letters() == ["malformed", "no_id", "malformed"]


def test_a_repeated_event_is_delivered_once_within_an_hour() -> None:
    router = Router("orders", "returns")
    router.subscribe("s")
    for at_ms in (2 * S, 3 * S, 2 * S + HOUR_MS):
        router.send("1", key="k", at_ms=at_ms)
    router.send("1", key="k", source="other", at_ms=3 * S + HOUR_MS)
    router.send("1", key="k", topic="returns", at_ms=3 * S + HOUR_MS)
    assert [(d.topic, d.offset) for d in router.out()] == [("orders", 0), ("orders", 2), ("orders", 3), ("returns", 0)]


def test_an_event_gets_what_held_at_its_place() -> None:
    router = Router()
    router.subscribe("s", 2 * S)
    router.subscribe("s", 4 * S, active=False)
    router.subscribe("s", 6 * S)
    router.bench.rows(router.made.subscriptions, {"s": None}, arrival_ms=8 * S)
    for n in range(1, 10):
        router.send(str(n), at_ms=n * S)
    assert [(d.event_id, d.subscription_row.offset) for d in router.out()] == [
        ("2", 0), ("3", 0), ("6", 2), ("7", 2)
    ]  # fmt: skip
    router.bench.end()


def test_a_row_that_breaks_a_rule_matches_nothing_and_is_counted() -> None:
    router = Router()
    router.subscribe("s")
    router.send("1")
    router.subscribe("s", 3 * S, types="orders")
    router.send("2", at_ms=4 * S)
    router.subscribe("s", 5 * S)
    router.endpoint("e", 6 * S, url="ftp://a.example")
    router.send("3", at_ms=7 * S)
    assert router.got() == [("1", "s")]
    counts = [router.bench.count(name) for name in ("invalid_subscriptions", "invalid_endpoints", "unmatched")]
    assert (counts, router.bench.dead_letters()) == ([1, 1, 2], [])


def test_another_owners_endpoint_gets_nothing() -> None:
    router = Router()
    router.subscribe("s", owner="bob")
    router.endpoint("gone", deleted=True)
    router.subscribe("t", endpointId="gone")
    router.subscribe("u", endpointId="none")
    router.send()
    assert router.got() == []


def test_http_is_allowed_where_the_configuration_says_so() -> None:
    router = Router(allow_http=True)
    router.endpoint("e", url="http://127.0.0.1:80/")
    router.subscribe("s")
    router.send()
    assert router.got() == [("1", "s")]


def test_why_forgets() -> None:
    router = Router(why_retention_ms=60 * S)
    why = router.made.service.queries["why"]
    router.subscribe("s", filter={"n": 1})
    router.send("1", b'{"n":2}')
    router.subscribe("s", 3 * S, types=7)
    router.send("2", at_ms=4 * S)
    told = [router.bench.ask(why, "orders", id, "s")[0].verdicts[0] for id in ("1", "2")]
    assert [(v.outcome, v.endpoint_id) for v in told] == [("FILTERED", "e"), ("INVALID_SUBSCRIPTION", "")]
    assert told[1].detail == "types is not a list with one type or more"
    assert router.bench.ask(why, "orders", "3", "s") == []
    router.bench.advance(70 * S)
    assert router.bench.ask(why, "orders", "1", "s") == []
    router.bench.end()
    assert [key for key, _ in router.bench.entries() if b"routed" in key] == []


def test_without_why_nothing_is_kept() -> None:
    router = Router(why_retention_ms=0)
    router.subscribe("s")
    router.send()
    assert router.got() == [("1", "s")]
    assert [key for key, _ in router.bench.entries() if b"routed" in key] == []


def test_mistakes_of_the_configuration() -> None:
    def wrong(**settings: Any) -> str:
        with pytest.raises(ServiceError) as e:
            DeliveryService(Config(**settings))
        return str(e.value)

    assert "found none" in wrong(why_retention_ms=0)
    assert "given twice" in wrong(cloud_events=("a", "a"))
    assert "tenant is 'a b'" in wrong(events=(Events("a", tenant="a b"),))
    assert "delivery_partitions is 0" in wrong(cloud_events=("a",), delivery_partitions=0)
    assert "duplicate_retention is 0 ms" in wrong(cloud_events=("a",), duplicate_retention_ms=0)
    assert "why_retention is -1 ms" in wrong(cloud_events=("a",), why_retention_ms=-1)


def test_an_owner_gets_the_events_about_its_endpoints() -> None:
    router = Router("endpoint-events")
    router.subscribe("s", types=["moneystate.endpoint.*"], scope=[{"tenant": tenant_of("eve")}])
    for owner in ("eve", "other"):
        event = StatusEvent(Kind.OPENED, f"of-{owner}", owner, Breaker(Status.OPEN), 2 * S)
        headers = dict(headers_of(event))
        router.bench.send_raw(
            "endpoint-events", to_json(event), key=event.endpoint_id, headers=headers, timestamp_ms=2 * S
        )
    (d,) = router.out()
    assert (d.type, d.tenant, json.loads(d.body)["endpointId"]) == ("moneystate.endpoint.opened", "owner:eve", "of-eve")
