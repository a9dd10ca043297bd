"""Upgrades state records of earlier versions of a service to the current ones.

A version that only lacks fields needs no function: the fields get their defaults. If a field was renamed, removed, or
has changed its meaning, a function upgrades the record:

    @ms.upgrade
    def in_cents(old: OrderV1) -> Order:
        return Order(cents=old.euros * 100)

`OrderV1` is a dataclass with the fields of the released version. Its name does not matter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from typing import Any, Final, TypeVar, get_type_hints

from moneystate.errors import ServiceError
from moneystate.records.codec import Codec
from moneystate.records.json_fields import MARK, is_marked
from moneystate.records.schema import header_of
from moneystate.records.shapes import CAMEL, Array, Exact, Field, Maybe, Plain, Record, Shape, Shapes, Symbols, Table
from moneystate.records.types import Digits

F = TypeVar("F", bound=Callable[[Any], Any])
Read = Callable[[bytes, int], tuple[Any, int]]
Convert = Callable[[Any], Any]

_UPGRADES: Final = "__moneystate_upgrades__"
_PLAIN: Final = {"string": "string", "long": "long", "double": "double", "boolean": "boolean", "bytes": "bytes"}


@dataclasses.dataclass(frozen=True)
class Earlier:
    """An earlier version of a record."""

    record: Record
    read: Read  # reads a body of the earlier version as a current record


def upgrade(function: F) -> F:
    """Declares a function from an earlier version of a state record to the next or the current version."""
    hints = get_type_hints(function)
    new = hints.pop("return", None)
    if len(hints) != 1 or not all(dataclasses.is_dataclass(cls) for cls in [new, *hints.values()]):
        raise ServiceError(
            f"upgrade {function.__name__}: expected a function of one dataclass that returns one.",
            "write def name(old: OrderV1) -> Order.",
        )
    (old,) = hints.values()
    if _UPGRADES not in vars(new):
        setattr(new, _UPGRADES, {})
    vars(new)[_UPGRADES][old] = function
    return function


def earlier_versions(
    current: Record, namespace: str, released: Iterable[Mapping[str, Any]], *, style: str = CAMEL, lossy: bool = False
) -> dict[bytes, Earlier]:
    """The readable versions of `current`, by the header of their schema: those with an upgrade function, and
    released schemas that only lack fields with defaults. `style`: of the names of fields. `lossy`: also schemas with
    fields that no longer exist."""
    versions: dict[bytes, Earlier] = {}
    for each in {CAMEL, style}:  # the service may have had the default style before
        versions.update(_with_functions(current, current.cls, (namespace, each), lambda record: record))
    for schema in released:
        try:
            record = record_of(schema, current)
        except (LookupError, ValueError, TypeError, AttributeError) as e:
            raise ServiceError(
                f"{current.name}: expected a schema that moneystate has released, found {type(e).__name__}: {e}.",
                "restore the file: a released schema is never edited.",
            ) from None
        header = header_of(record)
        convert = None if header == header_of(current) else conversion(record, current, lossy)
        if convert is not None and header not in versions:
            versions[header] = Earlier(record, _reader(record, convert))
    return versions


def _with_functions(current: Record, cls: type, names: tuple[str, str], then: Convert) -> dict[bytes, Earlier]:
    """`names`: the namespace, and the style of the names of fields."""
    versions: dict[bytes, Earlier] = {}
    for old, function in vars(cls).get(_UPGRADES, {}).items():
        namespace, style = names
        record = Shapes(namespace, {old: current.name}, style).record(old, f"upgrade {function.__name__}")
        convert = _chain(function, then)
        versions[header_of(record)] = Earlier(record, _reader(record, convert))
        versions.update(_with_functions(current, old, names, convert))
    return versions


def _chain(first: Convert, then: Convert) -> Convert:
    return lambda record: then(first(record))


def _reader(record: Record, convert: Convert) -> Read:
    codec = Codec(record)

    def read(value: bytes, pos: int) -> tuple[Any, int]:
        old, end = codec.read_body(value, pos)
        return convert(old), end

    return read


def record_of(schema: Mapping[str, Any], like: Record) -> Record:
    """The record of a schema. `like`: the current record. It shows which strings are symbols, and which are JSON if the
    release does not."""
    return _Released(notes_json=is_marked(schema)).record(schema, like)


class _Released:
    """Makes the shapes of a released schema. `notes_json`: the release says which strings are JSON."""

    def __init__(self, notes_json: bool) -> None:
        self.notes_json = notes_json
        self.known: dict[str, Shape] = {}

    def record(self, schema: Mapping[str, Any], like: Shape | None) -> Record:
        fields: list[Field] = []
        for f in schema["fields"]:
            current = None
            if isinstance(like, Record):
                current = next((field.shape for field in like.fields if field.was(f["name"])), None)
            name = f["name"] + "_" if iskeyword(f["name"]) else f["name"]
            fields.append(Field(name, f["name"], self.shape(f["type"], current), None, False))
        cls = dataclasses.make_dataclass(schema["name"], [(f.name, Any) for f in fields])
        record = Record(_name(schema), cls, fields)
        self.known[record.name] = record
        return record

    def shape(self, schema: Any, like: Shape | None) -> Shape:
        if isinstance(schema, list):
            (inner,) = [branch for branch in schema if branch != "null"]
            return Maybe(self.shape(inner, like.inner if isinstance(like, Maybe) else like))
        if isinstance(schema, str):
            return self._named(schema, like)
        kind = schema["type"]
        if kind == "record":
            return self.record(schema, like)
        if kind == "enum":
            return self.known.setdefault(_name(schema), Symbols(_name(schema), tuple(schema["symbols"])))
        if kind == "array":
            return Array(self.shape(schema["items"], like.inner if isinstance(like, Array) else None))
        if kind == "map":
            return Table(self.shape(schema["values"], like.inner if isinstance(like, Table) else None))
        if schema.get("logicalType") == "decimal":
            digits = Digits(schema["precision"], schema["scale"])
            return Plain("bytes", digits=digits) if isinstance(like, Plain) else Exact(digits)
        if schema.get("logicalType") == "timestamp-millis":
            return Plain("millis")
        if schema.get("logicalType") == MARK:
            return Plain("json")
        return self.shape(kind, like)

    def _named(self, name: str, like: Shape | None) -> Shape:
        if name == "string" and isinstance(like, Symbols) and not like.name:
            return like
        if name == "string" and like == Plain("json") and not self.notes_json:
            return Plain("json")
        if name == "int":
            return Plain("long", 32)
        return Plain(name) if name in _PLAIN else self.known[name]


def _name(schema: Mapping[str, Any]) -> str:
    namespace = schema.get("namespace", "")
    return f"{namespace}.{schema['name']}" if namespace else str(schema["name"])


def conversion(old: Shape, new: Shape, lossy: bool) -> Convert | None:
    """A function from a value of the old shape to the new one; None: that needs an upgrade function."""
    if isinstance(old, Record) and isinstance(new, Record):
        return _convert_records(old, new, lossy)
    if isinstance(new, Maybe):
        inner = conversion(old.inner if isinstance(old, Maybe) else old, new.inner, lossy)
        return None if inner is None else _convert_optional(inner)
    if isinstance(old, Array) and isinstance(new, Array):
        inner = conversion(old.inner, new.inner, lossy)
        return None if inner is None else _convert_items(inner)
    if isinstance(old, Table) and isinstance(new, Table):
        inner = conversion(old.inner, new.inner, lossy)
        return None if inner is None else _convert_values(inner)
    if isinstance(old, Symbols) and isinstance(new, Symbols):
        return (lambda value: value) if set(old.symbols) <= set(new.symbols) else None
    return (lambda value: value) if old == new or (old, new) == (Plain("long", 32), Plain("long")) else None


def _convert_records(old: Record, new: Record, lossy: bool) -> Convert | None:
    parts: list[tuple[str, str, Convert]] = []
    if not lossy and not all(any(f.was(earlier.wire) for f in new.fields) for earlier in old.fields):
        return None  # the content of a field would be lost
    for f in new.fields:
        named = {earlier.wire: earlier for earlier in old.fields}
        before = next((named[name] for name in (f.wire, *f.aliases) if name in named), None)
        if before is None:
            if f.default is None:
                return None
            continue
        convert = conversion(before.shape, f.shape, lossy)
        if convert is None:
            return None
        parts.append((f.name, before.name, convert))
    cls = new.cls

    def converted(value: Any) -> Any:
        return cls(**{name: convert(getattr(value, before)) for name, before, convert in parts})

    return converted


def _convert_optional(inner: Convert) -> Convert:
    return lambda value: None if value is None else inner(value)


def _convert_items(inner: Convert) -> Convert:
    return lambda values: [inner(value) for value in values]


def _convert_values(inner: Convert) -> Convert:
    return lambda values: {key: inner(value) for key, value in values.items()}
