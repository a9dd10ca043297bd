"""Compares a record as a step of the same batch gets it with the record as a step of a later batch gets it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final

from moneystate.records.codec import Codec
from moneystate.runtime.cells import Cell, RecordKind

_SCALARS: Final = (int, str, bool, bytes, type(None))


def difference_of_cell(cell: Cell) -> Iterator[str]:
    """The difference, if a step of this batch would get another record than a step of a later batch."""
    kind = cell.kind
    assert isinstance(kind, RecordKind)
    here = Cell(cell.key, kind, cell.owner, cell.id)
    here.loaded, here.stored, here.dirty, here.body = cell.loaded, cell.stored, cell.dirty, cell.body
    here.decode()
    later = Cell(cell.key, kind, cell.owner, cell.id)
    later.load(kind.encode(cell))
    later.decode()
    where = f"state {kind.name!r} of key {cell.owner.decode()!r}"
    yield from _of_values(f"{where}, read again", later.value, here.value)
    if cell.decoded:
        yield from _of_values(f"{where}, which a step changed without put", later.value, cell.value)
    if later.value is not None:
        body = cell.body if cell.dirty or cell.stored is None else kind.stored_body(cell.stored)
        yield from _of_bytes(f"{where}, read and written again", body, kind.body_of(later.value))


def difference_of_record(where: str, codec: Codec, value: bytes) -> Iterator[str]:
    """The difference, if an encoded record, read and written again, has other bytes."""
    yield from _of_bytes(f"{where}, read and written again", codec.encode(codec.decode(value)), value)


def exact_form(value: Any) -> Any:
    """A value in a form whose equality includes the types, the order of dicts, the sign of zero, and every digit."""
    cls = type(value)
    if cls in _SCALARS:
        return cls, value
    if hasattr(cls, "__dataclass_fields__"):
        declared, expected = _names(cls)
        extra = sorted(name for name in getattr(value, "__dict__", ()) if name not in expected)
        return cls, [(name, exact_form(getattr(value, name))) for name in declared], extra
    if isinstance(value, dict):
        return type(value), [(exact_form(key), exact_form(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [exact_form(item) for item in value]
    if isinstance(value, (float, Decimal)):
        return type(value), repr(value)
    return type(value), value


def _names(cls: type[Any]) -> tuple[list[str], set[str]]:
    """The fields of a dataclass, and all attributes that its objects may have."""
    if cls not in _NAMES:
        declared = [f.name for f in fields(cls)]
        members = [one for c in cls.__mro__ for one in vars(c).items()]
        cached = [name for name, one in members if isinstance(one, functools.cached_property)]
        _NAMES[cls] = declared, {*declared, *cached}
    return _NAMES[cls]


_NAMES: Final[dict[type[Any], tuple[list[str], set[str]]]] = {}


def _of_values(where: str, stored: Any, here: Any) -> Iterator[str]:
    if exact_form(stored) != exact_form(here):
        yield f"{where}: expected {stored!r}, found {here!r}"


def _of_bytes(where: str, expected: bytes | None, again: bytes | None) -> Iterator[str]:
    if expected != again:
        yield f"{where}: expected {_hex(expected)}, found {_hex(again)}"


def _hex(content: bytes | None) -> str:
    return "no entry" if content is None else content.hex()
