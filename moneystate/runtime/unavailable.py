"""Columns of change events that the database did not log.

PostgreSQL stores a long column apart and logs it only if an update changes it. Oracle does the same with LOBs. Debezium
then writes a placeholder instead of the value, in a form that depends on the column's type. Here such a column is
recognised and marked in the declared record, and `KeptRows` puts the row's last value back.

What is known of a row does not depend on what the service's step makes of its events. So it is kept even if the step
rejects them.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from moneystate.api.entries import Entries
from moneystate.api.handles import Input
from moneystate.engine.avro import Malformed
from moneystate.engine.inputs import is_pattern
from moneystate.engine.processor import Rejected
from moneystate.records import json_parts
from moneystate.records.json_number import Number
from moneystate.records.json_text import parse, quote
from moneystate.records.json_value import Json, json_as_is
from moneystate.records.reading import AFTER, BEFORE, path_of
from moneystate.records.shapes import Array, Maybe, Plain, Record, Shape, Table
from moneystate.records.types import named, personal

if TYPE_CHECKING:
    from moneystate.runtime.cells import RecordKind

UNAVAILABLE_VALUE: Final = "unavailable_value"  # the reason of a dead letter
KEPT_COLUMNS: Final = "kept_columns"  # the state
_ROWS: Final = (BEFORE[:-1], AFTER[:-1])
_NUMBERS: Final = ("long", "double")
UNKNOWN: Final = object()
_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "string": json_parts.string_in, "bytes": json_parts.bytes_in, "json": json_parts.json_in,
    "long": json_parts.long_in, "double": json_parts.double_in,
}  # fmt: skip


@named("moneystate.KeptColumns")
@dataclass(frozen=True)
class KeptColumns:
    """State: the columns of a row that an event may leave out, as JSON, by name."""

    columns: Annotated[dict[str, Json], personal]


class Column(NamedTuple):
    """A column that may be left out."""

    name: str
    read: Callable[[Any], Any]  # from parsed JSON
    mark: Any  # the field's value while the column is unavailable, as parsed JSON
    marked: Any  # and in the record


class Placeholder:
    """The forms of the placeholder."""

    def __init__(self, text: str) -> None:
        encoded = text.encode()
        self.text = text
        self.base64 = base64.b64encode(encoded).decode()
        in_json = "{" + f"{quote(text)}:{quote(text)}" + "}"  # of PostgreSQL's hstore
        self.texts = {text, self.base64, base64.urlsafe_b64encode(encoded).decode(), encoded.hex(), in_json}
        self.numbers = [Number(ord(character)) for character in text]
        of_uuids = str(uuid.UUID(bytes=hashlib.md5(encoded, usedforsecurity=False).digest(), version=3))
        self.arrays: list[Any] = [[text], [self.base64], [of_uuids], self.numbers]

    def is_in(self, value: Any) -> bool:
        """Whether a column has the placeholder as its value."""
        if type(value) is str:
            return value in self.texts
        return value in self.arrays if type(value) is list else value == {self.text: self.text}

    def column(self, name: str, shape: Shape) -> Column | None:
        """None: a field of this shape cannot hold the placeholder."""
        mark = self._mark(shape)
        if mark is None:
            return None
        read = _reader(shape)
        return Column(name, read, mark, read(mark))

    def _mark(self, shape: Shape) -> Any:
        if isinstance(shape, Maybe):
            return self._mark(shape.inner)
        if isinstance(shape, Plain):
            return {"string": self.text, "json": self.text, "bytes": self.base64}.get(shape.kind)
        if not isinstance(shape, (Array, Table)):
            return None
        if isinstance(shape, Array) and isinstance(shape.inner, Plain) and shape.inner.kind in _NUMBERS:
            return self.numbers
        inner = self._mark(shape.inner)
        if inner is None:
            return None
        return [inner] if isinstance(shape, Array) else {self.text: inner}


def _reader(shape: Shape) -> Callable[[Any], Any]:
    if isinstance(shape, Plain):
        return _PLAIN[shape.kind]
    assert isinstance(shape, (Maybe, Array, Table))
    wrap = {Maybe: json_parts.maybe_in, Array: json_parts.array_in, Table: json_parts.table_in}[type(shape)]
    return wrap(_reader(shape.inner))


class UnavailableColumns:
    """Finds the placeholder in the rows of one input's events. `reason`: why columns are not kept; "": they are."""

    def __init__(self, record: Record, declared: Input[Any]) -> None:
        self.placeholder = Placeholder(declared.unavailable.placeholder)
        self.rows = {name: row for name in _ROWS if (row := _row_of(record, name)) is not None}
        self.columns = {name: self._columns(row) for name, row in self.rows.items()}
        self.key = row_key(declared)
        self.reason = ""
        if not declared.unavailable.keep:
            self.reason = "the input does not keep columns"
        elif declared.format != "debezium":
            self.reason = "the input is not declared with format='debezium'"
        elif is_pattern(declared.topic):
            self.reason = "a topic pattern may read several tables; declare their topics one by one"
        elif not self.key:
            self.reason = "which row it is cannot be told; name its key columns, unavailable=ms.Unavailable(row=...)"

    @property
    def keeps(self) -> bool:
        return not self.reason and bool(self.columns.get(_ROWS[1]))

    def _columns(self, row: Record) -> list[Column]:
        columns = [self.placeholder.column(f.name, f.shape) for f in row.fields]
        return [column for column in columns if column is not None]

    def split(self, payload: Any, key: bytes | None) -> tuple[Any, dict[str, dict[str, Any]]]:
        """The event without unavailable columns, and the marks that stand for them, by row. Raises Rejected."""
        marks: dict[str, dict[str, Any]] = {}
        for name, row in self.rows.items():
            members = payload.get(name) if type(payload) is dict else None
            if type(members) is not dict:
                continue
            holes = [f.name for f in row.fields if f.name in members and self.placeholder.is_in(members[f.name])]
            if holes:
                self._check(f"{name}.{holes[0]}", key)
                marks[name] = {column: self._mark(name, column) for column in holes}
                payload = {**payload, name: {**members, **dict.fromkeys(holes)}}
        return payload, marks

    def _mark(self, row: str, name: str) -> Any:
        column = next((column for column in self.columns[row] if column.name == name), None)
        if column is None:
            raise Rejected(UNAVAILABLE_VALUE, f"{row}.{name}: its type cannot be kept")
        return column.mark

    def _check(self, path: str, key: bytes | None) -> None:
        problem = self.reason
        for other in sorted(_columns_of(key) - set(self.key))[:1]:
            problem = problem or f"the table's key has the column {other}, too; name it in ms.Unavailable(row=...)"
        if problem:
            raise Rejected(UNAVAILABLE_VALUE, f"{path}: the database did not log it, and {problem}")


def _row_of(record: Record, name: str) -> Record | None:
    field = record.field(name)
    if field is None:
        return None
    shape = field.shape.inner if isinstance(field.shape, Maybe) else field.shape
    return shape if isinstance(shape, Record) else None


def row_key(declared: Input[Any]) -> tuple[str, ...]:
    """The columns that identify a row: those declared, or those of the input's key. Empty: it has other parts."""
    if declared.unavailable.row:
        return declared.unavailable.row
    parts = declared.key if isinstance(declared.key, tuple) else (declared.key,)
    columns = [part.removeprefix(AFTER) for part in parts if isinstance(part, str) and part.startswith(AFTER)]
    return tuple(columns) if len(columns) == len(parts) and not any("." in column for column in columns) else ()


def _columns_of(key: bytes | None) -> set[str]:
    """The columns in a record's Kafka key, which are those of the table's primary key. Empty: it is not JSON."""
    try:
        document = parse((key or b"").decode())
    except (Malformed, UnicodeDecodeError):
        return set()
    if type(document) is dict and "payload" in document and document.keys() <= {"schema", "payload"}:
        document = document["payload"]
    return set(document) if type(document) is dict else set()


class KeptRows:
    """Puts the last values of a row back where an event does not have them, and keeps those that it has."""

    def __init__(self, record: Record, kind: RecordKind, columns: UnavailableColumns, where: str) -> None:
        self.kind = kind
        self.columns = columns.columns
        self.parts = [
            [path_of(record, f"{name}.{column}", where, "row")[0] for column in columns.key] for name in _ROWS[::-1]
        ]

    def id(self, record: Any, topic: str) -> str:
        """Returns the id of the row's entry."""
        parts = self.parts[record.after is None]
        return f"{topic}:[" + ",".join([quote(str(part(record))) for part in parts]) + "]"

    def restored(self, record: Any, topic: str, entries: Entries[KeptColumns]) -> tuple[Any, str]:
        """The record with all columns, and the path of one that is not known; "": there is none."""
        id = self.id(record, topic)
        stored = entries.get(id)
        known = {} if stored is None else stored.columns
        values: dict[str, Any] = {}
        unknown = ""
        for name, columns in self.columns.items():
            row = getattr(record, name)
            missing = [c for c in columns if getattr(row, c.name) == c.marked] if row is not None else []
            last = {c.name: value for c in missing if (value := _value_in(known, c)) is not UNKNOWN}
            if len(last) < len(missing):
                unknown = f"{name}." + next(c.name for c in missing if c.name not in last)
            if last:
                values[name] = dataclasses.replace(row, **last)
        if values:
            record = dataclasses.replace(record, **values)
        self._keep(record.after, id, known, entries)
        return record, unknown

    def _keep(self, row: Any, id: str, known: Mapping[str, Json], entries: Entries[KeptColumns]) -> None:
        if row is None:
            if known:
                entries.delete(id)
            return
        columns = {c.name: getattr(row, c.name) for c in self.columns[_ROWS[1]]}
        marks = {c.name: c.marked for c in self.columns[_ROWS[1]]}
        current = {name: _json_of(value) for name, value in columns.items() if value != marks[name]}
        if current != known:
            entries.put(id, KeptColumns(current))


def _value_in(known: Mapping[str, Json], column: Column) -> Any:
    if column.name not in known:
        return UNKNOWN
    try:
        return column.read(parse(known[column.name].text))
    except Malformed:  # the column had another type
        return UNKNOWN


def _json_of(value: Any) -> Json:
    if type(value) is str:
        return json_as_is(quote(value))
    return Json.of(_plain(value))


def _plain(value: Any) -> Any:
    """Returns the value with bytes as base64."""
    if type(value) is bytes:
        return base64.b64encode(value).decode()
    if type(value) is list:
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if type(value) is dict else value
