"""The stock's part of the live proof: the ledger and the saga, which read what the other one writes.

What stands in `stock-commands` depends on when each of them wrote. So their references read that log, too, and the
heartbeats that keep time moving. The commands of customers have no key, those of the saga have their pool's.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

from services.stock import records
from tests.reference.model import LogRecord
from tests.services.live import Case, Expected, Read, Written
from tests.services.stock.customers import Customers
from tests.services.stock.orders_reference import Orders
from tests.services.stock.reference import Beat, Ledger
from tests.services.stock.workload import SHORT, START, Workload

COMMANDS, ORDERS = "stock-commands", "orders"
PARTITIONS: Final = {COMMANDS: 3, ORDERS: 2}
ORDER_RETENTION_MS: Final = 60_000
TABLES: Final = f"""
[stock]
command_retention = "{SHORT.command_retention_ms}ms"
reservation_retention = "{SHORT.reservation_retention_ms}ms"
order_retention = "{ORDER_RETENTION_MS}ms"
"""
BEFORE: Final = 260
PAUSE_MS: Final = 1_000_000
BEAT_MS: Final = 40
LONG: Final = {"type": "Adjust", "commandId": "c", "pool": "p", "time": START, "sku": "x" * 1_001, "quantity": 1}
JUNK: Final[dict[bytes | None, str]] = {
    None: "null_value",
    b"{": "malformed",
    b'{"type":"Restock","commandId":"c","pool":"p","time":1}': "unknown_schema",
    b'{"type":"Adjust","commandId":"c","pool":"p","time":1,"sku":"a"}': "malformed",
    b'{"type":"Cancel","commandId":"c","pool":7,"time":1,"reservationId":"r"}': "malformed",
    b'{"type":"Reserve","commandId":"c","pool":"p","time":1,"reservationId":"r","lines":[{}],"ttlMs":1}': "malformed",
    json.dumps(LONG).encode(): "text_too_long",
}
TYPES: Final = {cls.__name__: cls for cls in (*records.COMMANDS, records.OrderPlaced,
                                              records.OrderConfirmed, records.OrderCancelled)}  # fmt: skip


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_read(record: Any) -> Any:
    """A record as its JSON is read, but for its type."""
    if isinstance(record, list):
        return [as_read(one) for one in record]
    if record is None or isinstance(record, (str, int, dict)):
        return record
    document = {camel(f.name): as_read(getattr(record, f.name)) for f in fields(record)}
    return document | ({"time": iso(record.time)} if "time" in document else {})


def typed(record: Any) -> Any:
    return {"type": type(record).__name__, **as_read(record)}


def from_json(value: bytes | None) -> Any:
    """As the references take it, None where no time is known."""
    if value in JUNK:
        return Beat(START) if JUNK[value] == "text_too_long" else None
    document = json.loads(value or b"")
    time: Any = document.get("time", document.get("processedAt"))
    time = time if isinstance(time, int) else int(datetime.fromisoformat(time).timestamp() * 1_000 + 0.5)
    if document["type"] == "Heartbeat":
        return Beat(time)
    cls = TYPES[document["type"]]
    members = {f.name: document[camel(f.name)] for f in fields(cls) if camel(f.name) in document} | {"time": time}
    if "lines" in members:
        line = records.OrderLine if cls is records.OrderPlaced else records.Line
        members["lines"] = [line(**its) for its in members["lines"]]
    return cls(**members)


def heartbeats(time_ms: int) -> list[Written]:
    value = json.dumps({"type": "Heartbeat", "processedAt": iso(time_ms)}).encode()
    return [Written(topic, partition, value) for topic, n in PARTITIONS.items() for partition in range(n)]


class _Log:
    """`before` a pause, in which the heartbeats are, and half as much `after` it."""

    def __init__(self) -> None:
        self.chance = random.Random(19)
        self.alone, self.customers = Workload(19), Customers(19)
        self.sent = 0
        self.before = [*heartbeats(START), *self.some(BEFORE)]
        self.end = self.alone.now
        self.alone.now = self.customers.now = self.end + PAUSE_MS
        self.after = self.some(len(self.before) // 2)

    def some(self, count: int) -> list[Written]:
        log: list[Written] = []
        while len(log) < count:
            chunk = self.customers.chunk()
            self.alone.now = max(self.alone.now, self.customers.now)
            chunk += [self.alone_command() for _ in range(5)]
            self.customers.now = self.alone.now
            for record in sorted(chunk, key=lambda record: record.time):
                topic = COMMANDS if isinstance(record, records.PoolCommand) else ORDERS
                value = json.dumps(typed(record)).encode()
                log.append(Written(topic, self.chance.randrange(PARTITIONS[topic]), value))
            if self.chance.random() < 0.2:
                log.append(Written(COMMANDS, self.chance.randrange(3), self.chance.choice([*JUNK])))
        return log[:count]

    def alone_command(self) -> Any:
        """No longer wait before it than the pause: it would be ahead of its Kafka timestamp."""
        self.alone.edges = [edge for edge in self.alone.edges if edge < self.alone.now + PAUSE_MS // 100]
        self.sent += 1
        return self.alone.commands(self.sent)[-1]


LOG: Final = _Log()


def beats(share: float, number: int) -> list[Written]:
    """The heartbeats after this share of the log."""
    return heartbeats((LOG.alone.now if share == 1 else LOG.end) + 1_000 + BEAT_MS * number)


def expected(read: Read) -> Expected:
    logs = {topic: _partitions(read(topic), n) for topic, n in PARTITIONS.items()}
    ledger = Ledger(SHORT.command_retention_ms, SHORT.reservation_retention_ms)
    ledger.run(logs[COMMANDS], end=False)
    ledger.expire_before(min(max(record.time for record in log) for log in logs[COMMANDS]))
    saga = Orders(ORDER_RETENTION_MS).run(logs[ORDERS], ledger.timed)
    outputs = {
        "stock-events": _by_key(ledger.events, "pool"),
        "stock-replies": _by_key(ledger.replies, "pool"),
        "stock": _by_key(ledger.levels, "pool", "sku"),
        "order-results": _by_key(saga.results, "order_id"),
        COMMANDS: _by_key(saga.commands, "pool"),
    }
    log = read(COMMANDS)
    outputs[COMMANDS] = {pool: _as_written(commands, pool, log) for pool, commands in outputs[COMMANDS].items()}
    letters = Counter([*saga.letters, *(JUNK[r.value] for r in log if r.value in JUNK)])
    return Expected(outputs, letters)


def _partitions(log: list[LogRecord], partitions: int) -> list[list[Any]]:
    read = [[from_json(r.value) for r in log if r.partition == partition] for partition in range(partitions)]
    return [[record for record in its if record is not None] for its in read]


def _by_key(outputs: list[Any], *names: str) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = defaultdict(list)
    for record in outputs:
        parts = [getattr(record, name) for name in names]
        key = parts[0] if len(parts) == 1 else json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        lists[key].append(typed(record))
    return dict(lists)


def _as_written(commands: list[Any], pool: str, log: list[LogRecord]) -> list[Any]:
    """The same ones in the order of the log, which has those of several orders in any order."""
    written = [json.loads(r.value or b"") for r in log if r.key == pool.encode()]
    return written if sorted(map(repr, written)) == sorted(map(repr, commands)) else commands


CASE: Final = Case(
    "stock", ("stock", "stock-orders"), TABLES, PARTITIONS, [*LOG.before, *LOG.after], expected, beats=beats
)
