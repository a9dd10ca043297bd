"""Reads the records of a table's topic: rows, tombstones, and the end of a load.

A record without a Kafka key is one of the platform: TableLoaded ends a load, and a heartbeat only advances time. With
`key=` a row may lack the Kafka key, too. A tombstone has the key of the row that it removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from moneystate.api.message import message_of
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.deadletter import Letter
from moneystate.engine.processor import Convert, Decoded, Rejected
from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD
from moneystate.records.reading import key_bytes
from moneystate.records.type_names import TYPE
from moneystate.runtime.json_topic import DEBEZIUM, JSON, heartbeat_in, parse_value
from moneystate.runtime.table_changes import ChangeRows, ends_snapshot
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.whole import made_by

if TYPE_CHECKING:
    from moneystate.runtime.decoder import ServiceDecoder

LOADED: Codec = Codec(TABLE_LOADED_RECORD)
LOADED_MEMBERS = frozenset({TYPE, *[f.label for f in TABLE_LOADED_RECORD.fields]})


class Row(NamedTuple):
    """Holds what a record of the topic says."""

    key: bytes
    change: Any  # the `<Record>Change`
    canonical: bytes


def is_loaded(key: bytes | None, value: bytes | None) -> bool:
    """Whether a record ends a load of a table, in any format."""
    return _loaded(key, value) is not None


def ends_load(format: str, record: Letter) -> int | None:
    """See `moneystate.engine.processor.Decoder`."""
    if is_loaded(record.key, record.value):
        return record.offset
    return ends_snapshot(record.offset, record.value) if format == DEBEZIUM else None


def _loaded(key: bytes | None, value: bytes | None) -> bytes | None:
    """The TableLoaded in canonical form; None: the record is another one."""
    if key is not None or value is None:
        return None
    if value.startswith(LOADED.header):
        return value
    if b'"TableLoaded"' not in value:
        return None
    try:
        document = parse_value(value)
        if type(document) is not dict or document.get(TYPE) != TABLE_LOADED_RECORD.short:
            return None
        return LOADED.encode(LOADED.from_json(document)) if document.keys() == LOADED_MEMBERS else None
    except Malformed:
        return None


class TableReader:
    """Reads the records of one table (`moneystate.engine.processor.Read`)."""

    def __init__(self, decoder: ServiceDecoder, planned: TablePlan, format: str, convert: Convert | None) -> None:
        self.decoder = decoder
        self.planned = planned
        self.format = format
        self.convert = convert  # as for `WholeReader`
        self.heartbeat = decoder.plan.heartbeat
        self.changes = ChangeRows(planned.table, planned.codec) if format == DEBEZIUM else None

    def __call__(self, record: Letter) -> Decoded | None:
        """The time is that of arrival."""
        platforms = self._platforms(record) if record.key is None else None
        if platforms is not None:
            return platforms, 0, None
        row = self.read(record)
        return None if row is None else (row.canonical, 0, row.key)

    def is_platforms(self, record: Letter) -> bool:
        """Whether a record has no row, but only advances time. Raises Rejected."""
        return record.key is None and self._platforms(record) is not None

    def _platforms(self, record: Letter) -> bytes | None:
        loaded = _loaded(record.key, record.value)
        if loaded is not None:
            return loaded
        try:
            return heartbeat_in(record.value, self.heartbeat)
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None

    def read(self, record: Letter) -> Row | None:
        """A record of a row; None: it has none. Raises Rejected, and StepError if the table's own function fails."""
        if self.changes is not None:
            return self._changed(self.changes, record)
        key, value = record.key, record.value
        try:
            if value is None:
                if key is None:
                    raise Rejected("null_value")
                return self._row(key, None)
            row = self._value(value) if self.planned.table.decode is None else self._decoded(record)
            if row is None:
                return None
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None
        try:
            return self._row(self._key(key, row), row)
        except Malformed as e:
            raise Rejected("bad_key", str(e)) from None

    def _changed(self, changes: ChangeRows, record: Letter) -> Row | None:
        try:
            change = changes.read(record)
            return None if change is None else self._row(change.key, change.row, change.position)
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None

    def _row(self, key: bytes, row: Any, position: int = 0) -> Row:
        of_log = [position] if self.planned.table.has_positions else []
        change = self.planned.changes.record.cls(row, *of_log)
        return Row(_checked(key), change, self.planned.changes.encode(change))

    def _key(self, key: bytes | None, row: Any) -> bytes:
        """The key of a row. Raises Malformed."""
        keys = self.planned.keys
        if keys is None:
            if key is None:
                raise Malformed("a row without a Kafka key")
            return key
        (own,) = keys.keys(row)
        if key is not None and key != own:
            raise Malformed("the row's fields are not the Kafka key, which a tombstone would have")
        return own

    def _decoded(self, record: Letter) -> Any:
        """The row that the table's own function makes; None: it makes none. Encoding it, and reading it again, gives it
        the form that it has in the state."""
        table = self.planned.table
        assert table.decode is not None
        message = message_of(table.topic, record)
        made = made_by(table.decode, message, self.planned.codec, self.decoder.dead_letter_errors)
        return None if made is None else self.planned.codec.decode(made[1])

    def _value(self, value: bytes) -> Any:
        """Raises Malformed, and Rejected."""
        codec = self.planned.codec
        if self.format == JSON:
            return codec.from_json(parse_value(value))
        canonical = value if self.convert is None else self.convert(value)
        if canonical[:HEADER_BYTES] != codec.header:
            raise Rejected("unknown_schema", "the table has rows of another type")
        return codec.decode(canonical)


def _checked(key: bytes) -> bytes:
    """Raises Malformed."""
    try:
        return key_bytes(key.decode())
    except UnicodeDecodeError:
        raise Malformed("a key that is not UTF-8") from None
