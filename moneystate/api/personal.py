"""Fields that are marked as personal: blanked for those who may not see them.

A blanked field has the empty value of its type. Its path is told beside the record, so that nobody takes it for one.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from moneystate.api.json_text import Json
from moneystate.api.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table

_EMPTY: Final[dict[str, Any]] = {
    "string": "", "long": 0, "millis": 0, "double": 0.0, "boolean": False, "bytes": b"", "json": Json("null"),
}  # fmt: skip


def has_personal(shape: Shape) -> bool:
    if isinstance(shape, Record):
        return any(f.personal or has_personal(f.shape) for f in shape.fields)
    return isinstance(shape, (Maybe, Array, Table)) and has_personal(shape.of)


def paths(shape: Shape, at: str = "") -> Iterator[str]:
    """Of personal fields, with their names on the wire: `customer.email`, `lines[].name`."""
    if isinstance(shape, Record):
        for f in shape.fields:
            path = f"{at}.{f.wire}" if at else f.wire
            if f.personal:
                yield path
            else:
                yield from paths(f.shape, path)
    elif isinstance(shape, (Array, Table)):
        yield from paths(shape.of, f"{at}[]")
    elif isinstance(shape, Maybe):
        yield from paths(shape.of, at)


def blanked(shape: Shape, value: Any) -> Any:
    """A copy with empty values in personal fields."""
    if not has_personal(shape) or value is None:
        return value
    if isinstance(shape, Maybe):
        return blanked(shape.of, value)
    if isinstance(shape, Array):
        return [blanked(shape.of, item) for item in value]
    if isinstance(shape, Table):
        return {key: blanked(shape.of, item) for key, item in value.items()}
    assert isinstance(shape, Record)
    made = copy.copy(value)
    for f in shape.fields:
        # past __init__ and what may check its arguments
        object.__setattr__(made, f.name, empty(f.shape) if f.personal else blanked(f.shape, getattr(value, f.name)))
    return made


def empty(shape: Shape) -> Any:
    if isinstance(shape, Maybe):
        return None
    if isinstance(shape, Array):
        return []
    if isinstance(shape, Table):
        return {}
    if isinstance(shape, Record):
        made: Any = object.__new__(shape.cls)
        for f in shape.fields:
            object.__setattr__(made, f.name, empty(f.shape))
        return made
    if isinstance(shape, Symbols):
        return shape.symbols[0]
    if isinstance(shape, Exact):
        return Decimal(0)
    assert isinstance(shape, Plain)
    return _EMPTY[shape.kind]


def reads_personal(by: Callable[..., Any], record: Record) -> bool:
    """Whether the function of an index may read a personal field of the record. Where that cannot be told, it may."""
    if not has_personal(record):
        return False
    return _may_read(by, record.cls, set(_personal_names(record)), set())


def _personal_names(shape: Shape) -> Iterator[str]:
    if isinstance(shape, Record):
        for f in shape.fields:
            if f.personal:
                yield f.name
            yield from _personal_names(f.shape)
    elif isinstance(shape, (Array, Table, Maybe)):
        yield from _personal_names(shape.of)


def _may_read(function: Any, cls: type, personal: set[str], seen: set[int]) -> bool:
    if not isinstance(function, FunctionType):
        return True
    if id(function) in seen:
        return False
    seen.add(id(function))
    names = set(_names(function.__code__))
    if names & personal or names & {"getattr", "vars", "asdict", "astuple", "__dict__", "repr", "fields"}:
        return True
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    used += [cell.cell_contents for cell in function.__closure__ or ()]
    used += [vars(one)[name] for one in used if isinstance(one, ModuleType) for name in names & vars(one).keys()]
    used += [method for name in names if isinstance(method := getattr(cls, name, None), FunctionType)]
    used += [prop.fget for name in names if isinstance(prop := getattr(cls, name, None), property)]
    return any(_may_read(one, cls, personal, seen) for one in used if callable(one) and not _is_harmless(one))


def _is_harmless(one: Any) -> bool:
    return isinstance(one, type) or getattr(builtins, getattr(one, "__name__", ""), None) is one


def _names(code: CodeType) -> Iterator[str]:
    """Of all that is read; a text may be one for `attrgetter`."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        elif isinstance(constant, str):
            yield from constant.split(".")
