"""What records of a topic do to rows: from records to the changes of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moneystate.apply.column_types import INTEGERS, Column
from moneystate.apply.config import Mode
from moneystate.apply.records import Decode, Delete, Fields, Ignored, Put, Record, Refused
from moneystate.apply.value_types import KEPT, BadValue
from moneystate.apply.values import Writer, writer_for
from moneystate.engine.avro import Malformed
from moneystate.records.json_number import Number
from moneystate.records.json_text import parse

Key = tuple[str, ...]
Texts = list[str | None]

NUMBERS: Final = (*INTEGERS, "numeric", "float4", "float8")


@dataclass(slots=True)  # as `Record`
class RowPut:
    """A row's columns, as texts in the order of the plan."""

    key: Key
    texts: Texts
    unchanged: tuple[int, ...] = ()  # columns that keep what they have


@dataclass(frozen=True, slots=True)
class RowDelete:
    key: Key


RowChange = RowPut | RowDelete


@dataclass
class Changes:
    """The changes of a transaction. First the deletions, then the puts."""

    deletes: list[Key] = field(default_factory=list)
    puts: list[RowPut] = field(default_factory=list)


@dataclass(slots=True)
class BoundColumn:
    """A column, with the field that it gets its value from."""

    column: Column
    path: tuple[str, ...]
    write: Writer
    keeps_absent: bool = False  # the column of an absent field keeps what it has

    def text(self, fields: Fields) -> Any:
        """The text of the column, or None for null, or KEPT. Raises Refused."""
        path = self.path
        value = fields.get(path[0]) if len(path) == 1 else value_at(fields, path)
        if value is None:
            return self._null(fields)
        if value is KEPT:
            return KEPT
        try:
            return self.write(value)
        except BadValue as e:
            raise Refused("value", f"column {self.column.name}: {e}") from None

    def _null(self, fields: Fields) -> Any:
        if self.keeps_absent and self.path[0] not in fields:
            return KEPT
        if not self.column.nullable and not self.column.has_default:
            raise Refused("null", f"column {self.column.name}: expected a value, found null")
        return None


class RowPlan:
    """Describes how the records of a topic become rows of a table."""

    def __init__(
        self, columns: Sequence[Column], paths: Mapping[str, str], key: Sequence[str], mode: Mode, decode: Decode,
        remove_nul: bool, keeps_absent: bool = False,
    ) -> None:  # fmt: skip
        """`columns`: those of the table that are written. `paths`: the field of each, by column."""
        self.columns = [
            BoundColumn(c, tuple(paths[c.name].split(".")), writer_for(c.type, remove_nul), keeps_absent)
            for c in columns
        ]
        by_path = {paths[c.name]: n for n, c in enumerate(columns)}
        self.key = [by_path[path] for path in key]
        self._paths = [tuple(path.split(".")) for path in key]
        self._key_field = key[0] if len(key) == 1 and "." not in key[0] else None
        self._mode = mode
        self._decode = decode

    @property
    def key_columns(self) -> list[Column]:
        return [self.columns[n].column for n in self.key]

    def change(self, record: Record) -> RowChange | None:
        """Returns what the record does; None: nothing. Raises Refused."""
        decoded = self._decode(record)
        if isinstance(decoded, Ignored):
            return None
        if isinstance(decoded, Delete):
            return None if self._mode is Mode.append else RowDelete(self._deleted(record, decoded))
        return self._put(record, decoded)

    def _put(self, record: Record, put: Put) -> RowPut:
        texts = [column.text(put.fields) for column in self.columns]
        unchanged = tuple([n for n, text in enumerate(texts) if text is KEPT])
        if self._paths:
            self._check_key(record, put.fields)
        key = tuple([texts[n] for n in self.key])
        if None in key or any(n in unchanged for n in self.key):
            raise Refused("null", "the key: expected a value for each of its parts, found null")
        return RowPut(key, texts, unchanged)

    def _check_key(self, record: Record, fields: Fields) -> None:
        if self._key_field is not None:
            text = fields.get(self._key_field)
            if type(text) is str and record.key == text.encode(errors="replace"):
                return  # as most records have it: the text of one field
        wanted = [str(value_at(fields, path)) for path in self._paths]
        if record.key is None or _parts(record.key, [path[-1] for path in self._paths]) != wanted:
            raise Refused("key", "the Kafka key: expected that of the value, found another")

    def _deleted(self, record: Record, delete: Delete) -> Key:
        if record.key is None:
            raise Refused("key", "the Kafka key: expected that of the row to delete, found none")
        names = [path[-1] for path in self._paths]
        if delete.fields is not None:
            values = [delete.fields.get(name) for name in names]
        else:
            parts = _parts(record.key, names)
            if parts is None:
                raise Refused("key", f"the Kafka key: expected {len(names)} parts")
            values = [_typed(part, self.columns[n].column) for part, n in zip(parts, self.key, strict=True)]
        return tuple([self._key_text(n, value) for n, value in zip(self.key, values, strict=True)])

    def _key_text(self, n: int, value: Any) -> str:
        bound = self.columns[n]
        if value is None:
            raise Refused("key", f"the Kafka key: expected a value for {bound.column.name}, found none")
        try:
            return bound.write(value)
        except BadValue as e:
            raise Refused("key", f"the Kafka key: {bound.column.name}: {e}") from None


def merged(changes: Iterable[RowChange]) -> Changes:
    """The least that has the same effect, in the order of the keys: keys that were deleted are deleted first, because a
    new row has the defaults of the columns that are not written; then each key's last put."""
    deletes: dict[Key, None] = {}
    puts: dict[Key, RowPut] = {}
    for change in changes:
        if isinstance(change, RowDelete):
            deletes[change.key] = None
            puts.pop(change.key, None)
        else:
            puts[change.key] = _over(puts.get(change.key), change)
    return Changes(sorted(deletes), [puts[key] for key in sorted(puts)])


def _over(before: RowPut | None, put: RowPut) -> RowPut:
    """The put, with columns that it keeps from an earlier put of the same transaction."""
    if before is None or not put.unchanged:
        return put
    texts = list(put.texts)
    for n in put.unchanged:
        texts[n] = before.texts[n]
    return RowPut(put.key, texts, tuple([n for n in put.unchanged if n in before.unchanged]))


def value_at(fields: Fields, path: Sequence[str]) -> Any:
    value: Any = fields
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _parts(key: bytes, names: Sequence[str]) -> list[str] | None:
    """The parts of a Kafka key as texts: its text, a JSON array of its parts, or an object with the columns. None: it
    has other parts."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    if text[:1] not in "[{" or (text[:1] == "[" and len(names) == 1):
        return [text] if len(names) == 1 else None
    try:
        document = parse(text)
    except Malformed:
        return [text] if len(names) == 1 else None
    if isinstance(document, dict):
        document = document.get("payload", document) if "schema" in document else document
        if not isinstance(document, dict):
            return None
        document = [document.get(name) for name in names] if document.keys() >= set(names) else [text]
    return [str(part) for part in document] if len(document) == len(names) else None


def _typed(part: str, column: Column) -> Any:
    """A part of a key as its column's writer takes it."""
    if column.type.name in NUMBERS:
        return Number(part)
    if column.type.name == "bool":
        return {"true": True, "false": False}.get(part, part)
    return part
