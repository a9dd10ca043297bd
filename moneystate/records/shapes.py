"""The shapes of records: the fields of a dataclass, analysed once.

    str   -> string      ms.Millis  -> timestamp-millis    Literal["A", "B"] -> enum (string if "A" is not a name)
    int   -> long        ms.Decimal -> decimal             X | None          -> [null, X]
    ms.Int32 -> int
    float -> double      ms.Json    -> string              list[X]           -> array
    bool  -> boolean     bytes      -> bytes               dict[str, X]      -> map

Field names are camelCase in Avro and JSON, unless the service or the field says otherwise (`ms.Wire`). A field of any
other type raises ServiceError.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from moneystate.errors import ServiceError
from moneystate.records.json_value import Json
from moneystate.records.types import INT32, MILLIS, NAME_ATTRIBUTE, WIRE_ATTRIBUTE, Digits, Header, Name, Wire, personal

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TYPE: Final = "type"  # the member of JSON that names the type of a record
_WORD: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")  # the beginning of a further word
_PLAIN: Final = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes", Json: "json"}
_ALLOWED: Final = (
    "use str, int, float, bool, bytes, ms.Millis, ms.Decimal, ms.Json, Literal[...], X | None, list[X], dict[str, X] "
    "or a dataclass of such fields."
)
MILLIS_KIND: Final = "millis"
HEADER_KINDS: Final = ("string", "long", "boolean", MILLIS_KIND)


@dataclass(frozen=True, eq=False)
class Shape:
    """Records are equal only to themselves, other shapes if their parts are equal."""


@dataclass(frozen=True)
class Plain(Shape):
    """A value without parts."""

    kind: str  # string, long, double, boolean, bytes, json or millis
    bits: int = 64  # of a long; 32: its schema is `int`, which has the same encoding
    digits: Digits | None = None  # of bytes: they are the unscaled value of a decimal, which JSON has as a number


@dataclass(frozen=True)
class Exact(Shape):
    """A decimal."""

    digits: Digits


@dataclass(frozen=True)
class Symbols(Shape):
    """One of a fixed set of strings."""

    name: str  # of the Avro enum; "": it is an Avro string, because a symbol is not a valid Avro name
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Maybe(Shape):
    inner: Shape


@dataclass(frozen=True)
class Array(Shape):
    inner: Shape
    personal: bool = False  # each item is


@dataclass(frozen=True)
class Table(Shape):
    """A map with string keys."""

    inner: Shape
    personal: bool = False  # each value is


@dataclass(frozen=True)
class Field:
    """A field of a record."""

    name: str  # the attribute
    wire: str  # its name in Avro, and in JSON unless `in_json` is another one
    shape: Shape
    default: Callable[[], Any] | None  # makes the value of an absent field; None: the field is required
    personal: bool
    header: str = ""  # the Kafka header that has it; "": it is in the value
    declared: str = ""  # the name that `ms.Wire` gives it; "": none
    in_json: str = ""  # a name in JSON that Avro does not allow
    aliases: tuple[str, ...] = ()  # earlier names in Avro
    also_in_json: tuple[str, ...] = ()  # names under which JSON is read if it has no `label`

    @property
    def label(self) -> str:
        """Its name in JSON."""
        return self.in_json or self.wire

    @property
    def column(self) -> str:
        """Its name in rows, whose columns keep their names."""
        return self.declared or self.name

    def was(self, name: str) -> bool:
        """Whether it has or had this name in Avro."""
        return name == self.wire or name in self.aliases


@dataclass(frozen=True, eq=False)
class Record(Shape):
    """A record type."""

    name: str  # with its namespace
    cls: type
    fields: list[Field] = field(default_factory=list)

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def type_name(self) -> str:
        """The name of its type in JSON."""
        wire: str = self.cls.__dict__.get(WIRE_ATTRIBUTE, "")
        return wire or self.short

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name == name), None)

    def has_defaults(self) -> bool:
        return all(f.default is not None for f in self.fields)


def paths(shape: Shape, wanted: Callable[[Field], bool], prefix: str = "") -> Iterator[str]:
    """The paths of the outermost fields that `wanted` accepts, with Avro names: `customer.email`, `lines[].name`."""
    if isinstance(shape, Record):
        for f in shape.fields:
            path = f"{prefix}.{f.wire}" if prefix else f.wire
            if wanted(f):
                yield path
            else:
                yield from paths(f.shape, wanted, path)
    elif isinstance(shape, (Array, Table)):
        yield from paths(shape.inner, wanted, f"{prefix}[]")
    elif isinstance(shape, Maybe):
        yield from paths(shape.inner, wanted, prefix)


def has_personal(shape: Shape) -> bool:
    """Whether it has personal parts, at any depth."""
    if isinstance(shape, Record):
        return any(f.personal or has_personal(f.shape) for f in shape.fields)
    if isinstance(shape, (Array, Table)):
        return shape.personal or has_personal(shape.inner)
    return isinstance(shape, Maybe) and has_personal(shape.inner)


def personal_paths(shape: Shape, prefix: str = "") -> Iterator[str]:
    """The paths of the outermost personal parts: `customer.email`, `phones[]`, `lines[].name`."""
    if isinstance(shape, Record):
        for f in shape.fields:
            path = f"{prefix}.{f.wire}" if prefix else f.wire
            if f.personal:
                yield path
            else:
                yield from personal_paths(f.shape, path)
    elif isinstance(shape, (Array, Table)):
        path = f"{prefix}[]"
        yield from [path] if shape.personal else personal_paths(shape.inner, path)
    elif isinstance(shape, Maybe):
        yield from personal_paths(shape.inner, prefix)


def is_json(shape: Shape) -> bool:
    """Whether the shape is JSON, or an array, map or optional of JSON."""
    return is_json(shape.inner) if isinstance(shape, (Maybe, Array, Table)) else shape == Plain("json")


def camel(name: str) -> str:
    head, *rest = name.strip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def snake(name: str) -> str:
    return _WORD.sub(r"_\1", name.strip("_")).lower()


CAMEL: Final = "camel"
STYLES: Final[Mapping[str, Callable[[str], str]]] = {CAMEL: camel, "snake": snake}


def is_immutable(shape: Shape) -> bool:
    """Whether values of the shape cannot be changed in place. Then they need no copies."""
    if isinstance(shape, Maybe):
        return is_immutable(shape.inner)
    if isinstance(shape, Record):
        params: Any = shape.cls.__dataclass_params__  # type: ignore[attr-defined]
        return bool(params.frozen) and all(is_immutable(f.shape) for f in shape.fields)
    return not isinstance(shape, (Array, Table))


def is_plain(shape: Shape) -> bool:
    """Whether all values of the shape, and of the fields of a record, are strings, whole numbers, booleans and such."""
    if isinstance(shape, Record):
        return all(is_plain(f.shape) and not isinstance(f.shape, Record) for f in shape.fields)
    if isinstance(shape, Maybe):
        return is_plain(shape.inner) and not isinstance(shape.inner, Record)
    return isinstance(shape, Symbols) or (isinstance(shape, Plain) and shape.kind != "double")


class Shapes:
    """The records of one service, each analysed once."""

    def __init__(self, namespace: str, renamed: Mapping[type, str] | None = None, style: str = CAMEL) -> None:
        self.namespace = namespace  # of records without a full name
        self.style = STYLES[style]  # of the names of fields without `ms.Wire`
        self.renamed = renamed or {}  # full names that replace the records' own
        self.records: dict[type, Record] = {}
        self.names: dict[str, type] = {}
        self.in_progress: list[type] = []  # records whose fields are being analysed, the outermost first

    def record(self, cls: Any, where: str) -> Record:
        """Analyses a dataclass. `where` names the declaration in errors."""
        if not isinstance(cls, type):
            raise ServiceError(f"{where}: expected a dataclass, found {cls!r}.", "pass the class itself.")
        if cls in self.records:
            return self.records[cls]
        if not dataclasses.is_dataclass(cls):
            raise ServiceError(
                f"{where}: expected a dataclass, found {cls.__name__}.", "put @dataclass before the class."
            )
        if cls in self.in_progress:
            raise ServiceError(
                f"{where}: the record {cls.__name__} contains itself.", "store its parts as entries of a map."
            )
        name = self._full_name(cls)
        if self.names.setdefault(name, cls) is not cls:
            raise ServiceError(f"{where}: two records are named {name}.", "rename one, or use @ms.named(...).")
        self.in_progress.append(cls)
        record = Record(name, cls)
        hints = _hints(cls, where)
        for f in dataclasses.fields(cls):
            record.fields.append(self._field(record, f, hints[f.name], f"{where}: {cls.__name__}.{f.name}"))
        self.in_progress.pop()
        record.fields[:] = _told_apart(record)
        self.records[cls] = record
        return record

    def _full_name(self, cls: type) -> str:
        if cls in self.renamed:
            return self.renamed[cls]
        name = cls.__dict__.get(NAME_ATTRIBUTE, cls.__name__)
        return name if "." in name else f"{self.namespace}.{name}"

    def _field(self, record: Record, f: dataclasses.Field[Any], hint: Any, where: str) -> Field:
        if not f.init:
            raise ServiceError(f"{where}: expected a field of __init__, found init=False.", "remove init=False.")
        default: Callable[[], Any] | None = None
        if f.default is not MISSING:
            value = f.default
            default = lambda: value  # noqa: E731
        elif f.default_factory is not MISSING:
            default = f.default_factory
        in_camel = camel(f.name)
        enum_name = f"{record.name}{in_camel[:1].upper()}{in_camel[1:]}"
        shape, header = self.shape(hint, where, enum_name), _header_of(hint)
        if header and not _fits_header(shape):
            raise ServiceError(
                f"{where}: a header cannot hold {_shown(_unmarked(hint))}.",
                "use str, int, bool, ms.Millis or Literal[...], or X | None of one.",
            )
        wire = next((mark for mark in _marks(hint) if isinstance(mark, Wire)), Wire(""))
        return self._named(Field(f.name, "", shape, default, _is_personal(hint), header), wire)

    def _named(self, f: Field, given: Wire) -> Field:
        """The field with its names. Where they are not the default, it is also read under the default one."""
        label = given.name or self.style(f.name)
        wire = label if _NAME.fullmatch(label) or not given.name else self.style(f.name)
        earlier = dict.fromkeys([*given.was, *([camel(f.name)] if wire != camel(f.name) else [])])
        names = dict.fromkeys([wire, *earlier, f.name])
        return dataclasses.replace(
            f,
            wire=wire,
            declared=given.name,
            in_json=label if label != wire else "",
            aliases=tuple(name for name in earlier if _NAME.fullmatch(name) and name != wire),
            also_in_json=tuple(name for name in names if name not in (label, _TYPE)),
        )

    def shape(self, hint: Any, where: str, enum_name: str) -> Shape:
        if get_origin(hint) is Annotated:
            return self._annotated(hint, where, enum_name)
        if hint in _PLAIN:
            return Plain(_PLAIN[hint])
        if hint is Decimal:
            return Exact(Digits(20, 4))
        origin, args = get_origin(hint), get_args(hint)
        if origin is Literal and all(isinstance(symbol, str) for symbol in args):
            named = all(_NAME.fullmatch(symbol) for symbol in args)
            return Symbols(enum_name if named else "", args)
        if origin in (Union, UnionType) and len(args) == 2 and NoneType in args:
            inner = self.shape(args[0] if args[1] is NoneType else args[1], where, enum_name)
            return Maybe(inner)
        if origin is list:
            return Array(self._item(args[0], where, enum_name), _is_personal(args[0]))
        if origin is dict and args[0] is str:
            return Table(self._item(args[1], where, enum_name), _is_personal(args[1]))
        if dataclasses.is_dataclass(hint):
            return self.record(hint, where)
        raise ServiceError(f"{where}: expected a type that a record can have, found {_shown(hint)}.", _ALLOWED)

    def _annotated(self, hint: Any, where: str, enum_name: str) -> Shape:
        hint, *marks = get_args(hint)
        name = next((mark.name for mark in marks if isinstance(mark, Name)), enum_name)
        if "." not in name:
            name = f"{enum_name.rpartition('.')[0]}.{name}"
        if hint is int and MILLIS in marks:
            return Plain(MILLIS_KIND)
        if hint is int and INT32 in marks:
            return Plain("long", 32)
        digits = next((mark for mark in marks if isinstance(mark, Digits)), None)
        if hint is Decimal and digits is not None:
            return Exact(digits)
        if hint is bytes and digits is not None:
            return Plain("bytes", digits=digits)
        return self.shape(hint, where, name)

    def _item(self, hint: Any, where: str, enum_name: str) -> Shape:
        item = self.shape(hint, where, enum_name)
        if isinstance(item, Record) and not item.fields:
            raise ServiceError(
                f"{where}: expected a record with fields as an item, found {item.cls.__name__} without any.",
                "store how many there are.",
            )
        return item


def _hints(cls: type, where: str) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError as e:
        raise ServiceError(
            f"{where}: a type in the record {cls.__name__} is unknown: {e}.",
            "define records, and import their types, at the top level of the module.",
        ) from None


def _is_personal(hint: Any) -> bool:
    return personal in _marks(hint)


def _header_of(hint: Any) -> str:
    return next((mark.name for mark in _marks(hint) if isinstance(mark, Header)), "")


def _marks(hint: Any) -> list[Any]:
    """The annotations of a field. In `X | None` they may belong to X."""
    if get_origin(hint) is Annotated:
        return list(get_args(hint)[1:])
    if get_origin(hint) in (Union, UnionType):
        return [mark for branch in get_args(hint) for mark in _marks(branch)]
    return []


def _unmarked(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _fits_header(shape: Shape) -> bool:
    inner = shape.inner if isinstance(shape, Maybe) else shape
    return isinstance(inner, Symbols) or (isinstance(inner, Plain) and inner.kind in HEADER_KINDS)


def _told_apart(record: Record) -> list[Field]:
    """The fields. A further name of one that is the name of another counts for the other alone. Raises ServiceError if
    two have one name."""
    cls, seen = record.cls.__name__, dict[str, str]()
    for f in record.fields:
        if not _NAME.fullmatch(f.wire):
            raise ServiceError(
                f"{cls}.{f.name}: Avro does not allow the name {f.wire!r}.", "use ASCII letters, digits and _."
            )
        for name in dict.fromkeys([f.wire, f.label]):
            if seen.setdefault(name, f.name) != f.name:
                where = "Avro" if _NAME.fullmatch(name) else "JSON"
                raise ServiceError(f"{cls}: {seen[name]} and {f.name} are both {name} in {where}.", "rename one.")
    return [
        dataclasses.replace(
            f,
            aliases=tuple(name for name in f.aliases if name not in seen),
            also_in_json=tuple(name for name in f.also_in_json if seen.get(name, f.name) == f.name),
        )
        for f in record.fields
    ]


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
