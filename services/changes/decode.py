"""Reads what Debezium writes: changes, boundaries of transactions and heartbeats, with or without schemas.

https://debezium.io/documentation/reference/connectors/postgresql.html. A transaction of PostgreSQL is
`<transaction>:<position>` in an event, and the position is that of each event. One of MySQL is its GTID.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import moneystate as ms
from moneystate.engine.avro import Malformed
from moneystate.records.json_text import canonical_text, decoded, parse
from moneystate.records.json_value import json_as_is
from moneystate.runtime.unavailable import Placeholder
from services.changes.config import Config, Table
from services.changes.records import NONE, Beat, Change, Ended

NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
OPS: Final = ("c", "u", "d", "r", "t")
MESSAGE: Final = "m"  # of `pg_logical_emit_message`
DECIMALS: Final = ("org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal")
DECIMAL_TEXT: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|NaN|-?Infinity")
MODE: Final = "set decimal.handling.mode=string"
Decode = Callable[[ms.Message], Any]


def payload_of(value: bytes) -> tuple[Any, Any]:
    """Returns what was written, and its schema, None if there is none. Raises Malformed."""
    document = parse(decoded(value))
    if type(document) is dict and document.keys() == {"schema", "payload"}:
        return document["payload"], document["schema"]
    return document, None


class ChangeDecoder:
    """Reads the changes of one table."""

    def __init__(self, config: Config, table: Table) -> None:
        self.config = config
        self.table = table
        self.postgresql = config.database == "postgresql"
        self.placeholder = Placeholder(config.placeholder)

    def __call__(self, message: ms.Message) -> Change | None:
        """None: a tombstone, or nothing that changes a row. Raises Malformed, Reject."""
        if message.value is None:
            return None
        try:
            event, schema = payload_of(message.value)
        except Malformed as e:
            return self._unreadable(lenient(message.value), str(e))
        if type(event) is not dict or event.get("op") not in OPS:
            if type(event) is dict and event.get("op") == MESSAGE:
                return None
            raise Malformed("expected a change event of Debezium with op c, u, d, r or t")
        try:
            return self._change(event, schema, message)
        except Malformed as e:
            return self._unreadable(event, str(e))

    def _change(self, event: dict[str, Any], schema: Any, message: ms.Message) -> Change:
        op = event["op"]
        source = self._source(event)
        if schema is not None:
            check_decimals(schema)
        before, after = row_in(event, "before"), row_in(event, "after")
        self._check_decimals(before, after)
        unavailable = self._unavailable(after)
        self._unavailable(before)
        key = "" if op == "t" else self._key(before if op == "d" else after)
        header = message.headers.get(NEW_KEY if op == "d" else OLD_KEY) if op in ("c", "d") else None
        transaction, order, lsn, commit, committed_at = self._place(event, source)
        return Change(
            self.config.connector, self.table.name, op, key, "" if header is None else self._other_key(header),
            None if before is None else json_as_is(canonical_text(before)),
            None if after is None else json_as_is(canonical_text(after)),
            transaction, order, lsn, commit, self._written_by(source), committed_at,
            json_as_is(canonical_text(unavailable)) if unavailable else NONE, source.get("snapshot") == "incremental",
        )  # fmt: skip

    def _source(self, event: dict[str, Any]) -> dict[str, Any]:
        source = event.get("source")
        if type(source) is not dict:
            raise Malformed("source: expected an object")
        if source.get("table") != self.table.name:
            raise ms.Reject("wrong_table", f"expected changes of {self.table.name}, found {source.get('table')}")
        return source

    def _place(self, event: dict[str, Any], source: dict[str, Any]) -> tuple[str, int, int, int, int]:
        """Transaction, number in it, position, position of the last commit, time."""
        transaction = event.get("transaction")
        in_transaction = transaction if type(transaction) is dict else {}
        id = in_transaction.get("id")
        committed_at = whole(source.get("ts_ms"))
        if self.postgresql:
            order = whole(in_transaction.get("total_order"))
            unit = unit_of(id, committed_at) if type(id) is str else ""
            return unit, order, whole(source.get("lsn")), commit_of(source.get("sequence")), committed_at
        position = binlog_position(source.get("file"), source.get("pos"))
        return id if type(id) is str else "", whole(source.get("row")), position, position, committed_at

    def _written_by(self, source: dict[str, Any]) -> str:
        by = source.get("txId") if self.postgresql else source.get("gtid")
        return "" if by is None else str(by)

    def _key(self, row: dict[str, Any] | None) -> str:
        return self._key_text(row, "the row")

    def _key_text(self, row: Any, where: str) -> str:
        if type(row) is not dict:
            raise Malformed(f"{where}: expected an object")
        missing = [column for column in self.table.key if row.get(column) is None]
        if missing:
            raise Malformed(f"{where}: the column {missing[0]} of the key is missing")
        return canonical_text([row[column] for column in self.table.key])

    def _other_key(self, header: bytes) -> str:
        return self._key_text(payload_of(header)[0], "the header with the other key")

    def _unavailable(self, row: dict[str, Any] | None) -> list[str]:
        """Takes the columns that the log does not have out of the row."""
        names = [name for name, value in row.items() if self.placeholder.is_in(value)] if row is not None else []
        for name in names:
            assert row is not None
            del row[name]
        return sorted(names)

    def _check_decimals(self, *rows: dict[str, Any] | None) -> None:
        for row in rows:
            for column in self.table.decimals if row is not None else ():
                assert row is not None
                value = row.get(column)
                is_text = type(value) is str and (DECIMAL_TEXT.fullmatch(value) or self.placeholder.is_in(value))
                if value is not None and not is_text:
                    raise Malformed(f"{column}: expected a decimal as a text; {MODE}")

    def _unreadable(self, event: Any, problem: str) -> Change:
        """A change of which no more than the transaction can be read. Raises Malformed if not even that."""
        transaction = event.get("transaction") if type(event) is dict else None
        source = event.get("source") if type(event) is dict else None
        if type(transaction) is not dict or type(source) is not dict or event.get("op") not in OPS:
            raise Malformed(problem)
        unit, order, lsn, commit, committed_at = self._place(event, source)
        if not unit:
            raise Malformed(problem)
        key = f"[{lsn},{order}]"  # tells it apart from others that cannot be read
        return Change(
            self.config.connector, self.table.name, event["op"], key, "", None, None, unit, order, lsn, commit,
            self._written_by(source), committed_at, NONE, problem=problem,
        )  # fmt: skip


def lenient(value: bytes) -> Any:
    """Returns what the standard library reads, as far as it can."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    wrapped = type(document) is dict and document.keys() == {"schema", "payload"}
    return document["payload"] if wrapped else document


def end_decoder(config: Config) -> Decode:
    """Makes the decoder of the topic of transactions. A BEGIN says nothing that the end does not say."""

    def decode(message: ms.Message) -> Ended | None:
        if message.value is None:
            return None
        event, _ = payload_of(message.value)
        if type(event) is not dict or event.get("status") not in ("BEGIN", "END") or type(event.get("id")) is not str:
            raise Malformed("expected the BEGIN or END of a transaction")
        if message.partition != 0:
            raise ms.Reject("several_partitions", "expected one partition, in which transactions have their order")
        if event["status"] == "BEGIN":
            return None
        id, committed_at = event["id"], whole(event.get("ts_ms"))
        counts = {collection: n for collection, n in counts_of(event.get("data_collections")) if n > 0}
        if config.database == "mysql":
            return Ended(config.connector, id, 0, committed_at, counts)
        return Ended(config.connector, unit_of(id, committed_at), position_of(id), committed_at, counts)

    return decode


def beat_decoder(config: Config) -> Decode:
    def decode(message: ms.Message) -> Beat | None:
        if message.value is None:
            return None
        event, _ = payload_of(message.value)
        return Beat(config.connector, whole(event.get("ts_ms") if type(event) is dict else None))

    return decode


def counts_of(collections: Any) -> list[tuple[str, int]]:
    entries = collections if type(collections) is list else []
    return [(str(entry.get("data_collection")), whole(entry.get("event_count"))) for entry in entries]


def unit_of(id: str, committed_at: int) -> str:
    """PostgreSQL's numbers of transactions come again, but not at the same time."""
    return f"{id.partition(':')[0]}@{committed_at}"


def transaction_in(unit: str) -> str:
    """The name that the database has for the transaction."""
    return unit.partition("@")[0]


def position_of(id: str) -> int:
    position = id.partition(":")[2]
    if not position.isdigit():
        raise Malformed(f"id: expected <transaction>:<position>, found {id}")
    return int(position)


def commit_of(sequence: Any) -> int:
    """`["31292080","31292080"]`: the position of the last commit, null before the first, and the change's own."""
    positions = parse(sequence) if type(sequence) is str else [None]
    first = positions[0] if type(positions) is list and positions else None
    return int(first) if type(first) is str and first.isdigit() else 0


def binlog_position(file: Any, position: Any) -> int:
    number = str(file).rpartition(".")[2]
    return (int(number) << 32 if number.isdigit() else 0) + whole(position)


def whole(number: Any) -> int:
    """0 for null. Raises Malformed."""
    if number is None:
        return 0
    try:
        return int(number)
    except (TypeError, ValueError):
        raise Malformed(f"expected a whole number, found {number!r}") from None


def row_in(event: dict[str, Any], name: str) -> dict[str, Any] | None:
    row = event.get(name)
    if row is not None and type(row) is not dict:
        raise Malformed(f"{name}: expected an object")
    return row


def check_decimals(schema: Any) -> None:
    """Raises Malformed for a column that is no text: its value would be bytes without a scale."""
    for envelope in fields_of(schema):
        for column in fields_of(envelope) if envelope.get("field") in ("before", "after") else ():
            if column.get("name") in DECIMALS:
                raise Malformed(f"{column.get('field')}: expected a decimal as a text; {MODE}")


def fields_of(schema: Any) -> list[dict[str, Any]]:
    fields = schema.get("fields") if type(schema) is dict else None
    return [field for field in fields if type(field) is dict] if type(fields) is list else []
