"""Rows of a table from Debezium's change events, in JSON.

The key is that of the Kafka record, which has the columns of the table's key: with `key=` those, in that order.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from moneystate.api.tables import DeclaredTable
from moneystate.api.truncations import TRUNCATED
from moneystate.engine.avro import Malformed
from moneystate.engine.deadletter import Letter
from moneystate.engine.processor import Rejected
from moneystate.records.change_values import row_converted
from moneystate.records.codec import Codec
from moneystate.records.json_number import Number
from moneystate.records.json_text import MAX_RECORD_LEVELS, decoded, parse
from moneystate.records.reading import is_whole_number, key_bytes, key_text
from moneystate.records.shapes import Record
from moneystate.records.types import Unavailable
from moneystate.runtime.unavailable import UNAVAILABLE_VALUE, Placeholder

PUTS: Final = ("c", "u", "r")
_WRAPPER: Final = {"schema", "payload"}
MAX_POSITION: Final = 2**63 - 1
_LAST: Final = ("last", "last_in_data_collection")  # of a snapshot
_PLACEHOLDER: Final = Placeholder(Unavailable().placeholder)


class RowChange(NamedTuple):
    """`key`: that of the row, or `moneystate.api.truncations.TRUNCATED`. `position`: as `table_records` has it."""

    key: bytes
    row: Any  # None: it is removed
    position: int


class ChangeRows:
    """Reads the change events of one table."""

    def __init__(self, table: DeclaredTable[Any], codec: Codec) -> None:
        self.table = table
        self.codec = codec
        self.record: Record = codec.record
        names = (table.key,) if isinstance(table.key, str) else table.key or ()
        self.key_columns = [f.column for f in self.record.fields if f.name in names]

    def read(self, record: Letter) -> RowChange | None:
        """None: the record has no row. Raises Malformed, and Rejected."""
        payload, schema = (None, None) if record.value is None else _unwrapped(_parsed(record.value))
        if payload is None:  # a tombstone
            return RowChange(self._key(record.key), None, 0)
        if type(payload) is not dict:
            raise Malformed("not an object")
        op = payload.get("op")
        if op in PUTS:
            row = self._row(payload.get("after"), _part(schema, "after"))
            return RowChange(self._key(record.key), row, _position(payload))
        if op == "d":
            return RowChange(self._key(record.key), None, _position(payload))
        if op == "t":
            return self._truncation(payload)
        if op == "m" or payload.keys() == {"ts_ms"}:  # a message, or the connector's heartbeat
            return None
        raise Malformed("op: none of c, u, r, d, t, m")

    def _truncation(self, payload: dict[str, Any]) -> RowChange:
        if not self.table.has_positions:
            raise Malformed("the table was truncated, and a local table keeps its rows; delete them one by one")
        return RowChange(TRUNCATED, None, _position(payload))

    def _key(self, key: bytes | None) -> bytes:
        columns = None if key is None else _unwrapped(_parsed(key))[0]
        if type(columns) is not dict or not columns:
            raise Rejected("bad_key", "expected the columns of the table's key as the Kafka key")
        missing = [name for name in self.key_columns if name not in columns]
        if missing:
            raise Rejected("bad_key", f"the Kafka key has no column {missing[0]}")
        parts = [columns[name] for name in self.key_columns or columns]
        try:
            own = key_bytes(key_text(tuple(part if type(part) is str else _whole(part) for part in parts)))
        except Malformed as e:
            raise Rejected("bad_key", str(e)) from None
        if own == TRUNCATED:
            raise Rejected("bad_key", "the key of truncations")
        return own

    def _row(self, after: Any, schema: Any) -> Any:
        if type(after) is not dict:
            raise Malformed("after: not an object")
        for f in self.record.fields:
            if _PLACEHOLDER.is_in(after.get(f.column)):
                raise Rejected(UNAVAILABLE_VALUE, f"{f.column}: the database did not log it; set REPLICA IDENTITY FULL")
        return self.codec.from_row(row_converted(self.record, after, schema))


def _position(payload: dict[str, Any]) -> int:
    """Returns the position in the log of PostgreSQL. 0: it is not known, as of other databases and of rows of an
    incremental snapshot."""
    source = payload.get("source")
    lsn = source.get("lsn") if type(source) is dict else None
    if type(lsn) is not Number or not is_whole_number(lsn):
        return 0
    position = int(lsn)
    return position if 0 < position <= MAX_POSITION else 0


def ends_snapshot(offset: int, value: bytes | None) -> int | None:
    """Works like `moneystate.engine.processor.Decoder.ends_load`: the last record of a snapshot is still of the first
    load, the first one after it is not."""
    try:
        payload = None if value is None else _unwrapped(_parsed(value))[0]
    except Malformed:
        return None
    if type(payload) is not dict:
        return None
    source = payload.get("source")
    snapshot = source.get("snapshot") if type(source) is dict else None
    if snapshot in _LAST:
        return offset + 1
    is_over = snapshot in (None, False, "false") and ("op" in payload or payload.keys() == {"ts_ms"})
    return offset if is_over else None


def _whole(part: Any) -> int:
    try:
        return int(part)
    except (TypeError, ValueError):
        raise Malformed("expected texts and whole numbers as the key") from None


def _parsed(value: bytes) -> Any:
    return parse(decoded(value), MAX_RECORD_LEVELS)


def _unwrapped(document: Any) -> tuple[Any, Any]:
    """The payload and its schema; None: it has none."""
    if type(document) is dict and "payload" in document and document.keys() <= _WRAPPER:
        return document["payload"], document.get("schema")
    return document, None


def _part(schema: Any, name: str) -> Any:
    fields = schema.get("fields") if type(schema) is dict else None
    parts = {f.get("field"): f for f in fields if type(f) is dict} if type(fields) is list else {}
    return parts.get(name, {})
