"""Writes what Debezium 3.6.1 writes for the log of the model database: the same members, in the same order, to the
same topics. It can be killed and started again, and make snapshots.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.reference.changes.database import KEYS, Columns, Committed, Logged, Row, key_columns

NAME: Final = "uni"
SCHEMA: Final = "public"
TRANSACTIONS: Final = f"{NAME}.transaction"
HEARTBEATS: Final = f"__debezium-heartbeat.{NAME}"


@dataclass(frozen=True)
class Message:
    """A record as the connector writes it. `group`: messages that it sends again together: those of one position.
    Debezium itself loses rows of a COPY when it is killed in the middle of one, so that is left out here."""

    topic: str
    key: Any
    value: Any
    headers: dict[str, str] = field(default_factory=dict)
    group: int = 0

    def value_bytes(self) -> bytes | None:
        return None if self.value is None else json.dumps(self.value, ensure_ascii=False).encode()

    def key_bytes(self) -> bytes | None:
        return None if self.key is None else json.dumps(self.key).encode()


def topic_of(table: str) -> str:
    return f"{NAME}.{SCHEMA}.{table}"


class Connector:
    """Makes messages. `metadata`: provide.transaction.metadata."""

    def __init__(self, chance: random.Random, metadata: bool = True) -> None:
        self.chance = chance
        self.metadata = metadata
        self.clock = 0  # how far its own clock is ahead of the database's
        self.group = 0

    # Transactions

    def transaction(self, committed: Committed) -> list[Message]:
        log = committed.transaction.log
        if not log:
            return []
        messages = [self._boundary("BEGIN", committed, log[0].lsn)] if self.metadata else []
        orders: dict[str, int] = {}
        for number, logged in enumerate(log, 1):
            orders[logged.table] = orders.get(logged.table, 0) + 1
            self._next_group(logged, log[number - 2] if number > 1 else None)
            in_transaction = {
                "id": f"{committed.transaction.id}:{logged.lsn}", "total_order": number,
                "data_collection_order": orders[logged.table],
            }  # fmt: skip
            messages += self._change(committed, logged, in_transaction if self.metadata else None)
        if self.metadata:
            counts = [{"data_collection": f"{SCHEMA}.{table}", "event_count": n} for table, n in orders.items()]
            messages.append(self._boundary("END", committed, committed.end_lsn, len(log), counts))
        return messages

    def _next_group(self, logged: Logged, previous: Logged | None) -> None:
        if previous is None or previous.group != logged.group:
            self.group += 1

    def _boundary(
        self, status: str, committed: Committed, lsn: int, count: int | None = None, counts: list[Any] | None = None
    ) -> Message:
        self.group += 1
        id = f"{committed.transaction.id}:{lsn}"
        value = {"status": status, "id": id, "event_count": count, "data_collections": counts, "ts_ms": committed.at}
        return Message(TRANSACTIONS, {"id": id}, value, group=self.group)

    def _change(self, committed: Committed, logged: Logged, in_transaction: Any) -> list[Message]:
        row = logged.after or logged.before
        key = None if row is None else key_columns(logged.table, row)
        headers = {}
        if logged.newkey is not None:
            headers["__debezium.newkey"] = json.dumps(logged.newkey, separators=(",", ":"))
        if logged.oldkey is not None:
            headers["__debezium.oldkey"] = json.dumps(logged.oldkey, separators=(",", ":"))
        last = None if committed.last_commit == 0 else str(committed.last_commit)
        source = self._source(logged.table, committed.at, "false", [last, str(logged.lsn)])
        source |= {"txId": committed.transaction.id, "lsn": logged.lsn}
        value = self._event(logged.op, logged.before, logged.after, source, in_transaction)
        rows = [Message(topic_of(logged.table), key, value, headers, self.group)]
        if logged.op == "d":
            rows.append(Message(topic_of(logged.table), key, None, headers, self.group))
        return rows

    def _source(self, table: str, at: int, snapshot: str, sequence: list[str | None]) -> dict[str, Any]:
        return {
            "version": "3.6.1.Final", "connector": "postgresql", "name": NAME, "ts_ms": at, "snapshot": snapshot,
            "db": NAME, "sequence": json.dumps(sequence, separators=(",", ":")), "schema": SCHEMA, "table": table,
            "txId": None, "lsn": None,
        }  # fmt: skip

    def _event(
        self, op: str, before: Columns | None, after: Columns | None, source: dict[str, Any], in_transaction: Any
    ) -> dict[str, Any]:
        self.clock += self.chance.randrange(3)
        event: dict[str, Any] = {"before": before, "after": after, "source": source, "transaction": in_transaction}
        return event | {"op": op, "ts_ms": source["ts_ms"] + self.clock}

    # Snapshots and heartbeats

    def snapshot(self, rows: Iterable[tuple[str, Row]], lsn: int, at: int, incremental: bool) -> list[Message]:
        """`lsn`: the position that the connector has reached."""
        messages = []
        for table, row in rows:
            if table in KEYS and table != "audit":
                source = self._source(table, at, "incremental" if incremental else "true", [str(lsn), str(lsn)])
                source |= {} if incremental else {"txId": 1, "lsn": lsn}
                self.group += 1
                value = self._event("r", None, dict(row.columns), source, None)
                messages.append(Message(topic_of(table), key_columns(table, row.columns), value, group=self.group))
        return messages

    def heartbeat(self, at: int) -> Message:
        self.group += 1
        return Message(HEARTBEATS, {"serverName": NAME}, {"ts_ms": at}, group=self.group)


def killed(chance: random.Random, stream: list[Message], kills: int) -> list[Message]:
    """What stands in the topics after the connector was killed some times: it sends again what follows the position
    that it had noted, and of what was on its way when it was killed, each topic has the first ones."""
    written: list[Message] = []
    start = 0
    stops = sorted(chance.randrange(1, len(stream) + 1) for _ in range(kills)) if stream else []
    for stop in stops:
        noted = _noted(chance, stream, start, stop)
        written += stream[start:noted] + _on_the_way(chance, stream[noted:stop])
        start = noted
        stream = _counted_again(stream, start)
    return written + stream[start:]


def _noted(chance: random.Random, stream: list[Message], start: int, stop: int) -> int:
    """A position between messages that are sent again together."""
    noted = max(start, stop - chance.randrange(12))
    while noted > start and noted < len(stream) and stream[noted].group == stream[noted - 1].group:
        noted -= 1
    return noted


def _on_the_way(chance: random.Random, messages: list[Message]) -> list[Message]:
    most = {message.topic: chance.randrange(len(messages) + 1) for message in messages}
    sent: list[Message] = []
    for message in messages:
        if most[message.topic] > 0:
            most[message.topic] -= 1
            sent.append(message)
    return sent


def _counted_again(stream: list[Message], start: int) -> list[Message]:
    """`total_order` begins again in the transaction that the connector is in."""
    recounted = list(stream)
    number = 0
    for place in range(start, len(stream)):
        message = stream[place]
        in_transaction = message.value.get("transaction") if message.value else None
        if in_transaction is None:
            if message.topic == TRANSACTIONS:
                break
            continue
        number += 1
        value = message.value | {"transaction": in_transaction | {"total_order": number}}
        recounted[place] = Message(message.topic, message.key, value, message.headers, message.group)
    return recounted
