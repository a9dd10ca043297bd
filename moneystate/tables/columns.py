"""The columns of a source: the names that they have in a row's document, and how cells of text are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.errors import ConfigError, SourceError
from moneystate.records.shapes import MILLIS_KIND, Exact, Maybe, Plain, Record, Shape, Symbols, camel
from moneystate.tables.cells import TEXT, Cell, cell_readers
from moneystate.tables.records import BadCell

_HALF: Final = re.compile("[\ud800-\udfff]")  # of a surrogate pair, in the place of a byte that is not UTF-8
_SNAKE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", re.ASCII)
_OF_KIND: Final[Mapping[str, str]] = {
    "string": TEXT, "bytes": TEXT, "long": "int", "double": "number", "boolean": "bool", MILLIS_KIND: "time",
}  # fmt: skip


class Names(StrEnum):
    """Describes what becomes of the names of columns."""

    camel = "camel"  # valid_from becomes validFrom, as fields of records are named in JSON
    keep = "keep"


@dataclass(frozen=True)
class Declared:
    """Holds what the user says about the columns. Names are those of the source."""

    key: tuple[str, ...]
    names: Names = Names.camel
    types: Mapping[str, str] = field(default_factory=dict)
    record: Record | None = None  # of a service that has the table
    zone: tzinfo | None = None  # of times without an offset


@dataclass(frozen=True)
class Column:
    name: str  # in the document
    read: Cell  # of a cell that is not empty
    empty: Any = None  # what an empty cell is; in the key null, which is refused

    def value(self, cell: str) -> Any:
        """A cell's value, or BadCell."""
        if not cell:
            return self.empty
        if not cell.isascii() and _HALF.search(cell):
            return BadCell("not UTF-8")
        try:
            return self.read(cell)
        except Malformed as e:
            return BadCell(e)


def name_of(declared: Declared) -> Callable[[str], str]:
    """The name in the document, by a column's name."""
    known: dict[str, str] = {}
    if declared.record is not None:
        for f in declared.record.fields:
            known |= {f.name: f.label, f.column: f.label, f.label: f.label}

    def name(column: str) -> str:
        if column in known:
            return known[column]
        return camel(column) if declared.names is Names.camel and _SNAKE.fullmatch(column) else column

    return name


def key_of(declared: Declared) -> tuple[str, ...]:
    """The members of a row's document that are its key."""
    return tuple(map(name_of(declared), declared.key))


def columns_of(header: Sequence[str], declared: Declared, where: str) -> list[Column]:
    """The columns of a file of text. Raises SourceError for a header that does not fit, and ConfigError for types of
    columns that it does not have."""
    check_header(header, declared, where)
    name, readers = name_of(declared), cell_readers(declared.zone)
    for column in declared.types:
        if column not in header:
            raise ConfigError(
                f"--types {column}: expected a column of {where}, found none of that name.",
                f"name one of {', '.join(header)}.",
            )
    fields = {f.label: f.shape for f in declared.record.fields} if declared.record is not None else {}
    columns, key = [], key_of(declared)
    for one in header:
        shape = fields.get(name(one))
        type_name, empty = (TEXT, None) if shape is None else _of_shape(shape)
        read = readers[declared.types.get(one, type_name)]
        columns.append(Column(name(one), read, None if name(one) in key else empty))
    return columns


def check_typed(declared: Declared, where: str) -> None:
    """Checks the flags for a source whose values have types of their own. Raises ConfigError."""
    if declared.types:
        raise ConfigError(
            f"--types: expected a file of CSV, found {where}, whose values have types.",
            "leave it out; convert values in the source.",
        )


def check_header(header: Sequence[str], declared: Declared, where: str) -> None:
    """Raises SourceError for columns of one name, and where a part of the key is missing."""
    name = name_of(declared)
    twice = [one for one, count in Counter(map(name, header)).items() if count > 1]
    if twice:
        raise SourceError(
            f"{where}: expected each column once, found {twice[0]!r} twice.",
            "rename one; --names keep leaves names in snake case as they are.",
        )
    missing = {name(one) for one in declared.key} - set(map(name, header))
    if missing:
        raise SourceError(
            f"{where}: expected the column {min(missing)!r}, which is a part of the key, found "
            f"{', '.join(map(repr, header))}.",
            "correct --key or the source.",
        )


def parsed_types(text: str) -> dict[str, str]:
    """The types of columns, `COLUMN=TYPE,...`. Raises ConfigError."""
    known, types = cell_readers(None), {}
    for part in filter(None, map(str.strip, text.split(","))):
        column, equals, name = map(str.strip, part.rpartition("="))
        if not equals or not column or name not in known:
            raise ConfigError(
                f"--types {part}: expected COLUMN=TYPE, with a type of {', '.join(known)}.", "correct the flag."
            )
        types[column] = name
    return types


def _of_shape(shape: Shape) -> tuple[str, Any]:
    """The type of a field's cells, and what an empty one is."""
    if isinstance(shape, Maybe):
        return _of_shape(shape.inner)[0], None
    if isinstance(shape, Plain):
        return _OF_KIND.get(shape.kind, "json"), "" if shape.kind == "string" else None
    if isinstance(shape, Exact):
        return "number", None
    return (TEXT, None) if isinstance(shape, Symbols) else ("json", None)
