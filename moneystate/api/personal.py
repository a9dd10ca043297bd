"""Masks personal fields for callers who may not read them.

A masked field has the empty value of its type. Its path is sent beside the record, so that callers can distinguish it
from an empty value.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable, Iterator
from decimal import Decimal
from dis import Instruction, get_instructions
from types import CodeType, FunctionType
from typing import Any, Final

from moneystate.api.function_code import names_of, reached
from moneystate.api.json_value import Json
from moneystate.api.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table

_EMPTY: Final[dict[str, Any]] = {
    "string": "", "long": 0, "millis": 0, "double": 0.0, "boolean": False, "bytes": b"", "json": Json("null"),
}  # fmt: skip

_READS_ALL: Final = {"getattr", "vars", "asdict", "astuple", "__dict__", "repr", "__repr__", "fields"}
_MAKE_STRINGS: Final = {"str", "ascii", "format", "format_map", "print", "__str__", "__format__"}


def has_personal(shape: Shape) -> bool:
    if isinstance(shape, Record):
        return any(f.personal or has_personal(f.shape) for f in shape.fields)
    return isinstance(shape, (Maybe, Array, Table)) and has_personal(shape.inner)


def blanked(shape: Shape, value: Any) -> Any:
    """A copy with empty values in personal fields."""
    if not has_personal(shape) or value is None:
        return value
    if isinstance(shape, Maybe):
        return blanked(shape.inner, value)
    if isinstance(shape, Array):
        return [blanked(shape.inner, item) for item in value]
    if isinstance(shape, Table):
        return {key: blanked(shape.inner, item) for key, item in value.items()}
    assert isinstance(shape, Record)
    masked = copy.copy(value)
    for f in shape.fields:
        # without __init__, which may check its arguments
        content = empty(f.shape) if f.personal else blanked(f.shape, getattr(value, f.name))
        object.__setattr__(masked, f.name, content)
    return masked


def empty(shape: Shape) -> Any:
    if isinstance(shape, Maybe):
        return None
    if isinstance(shape, Array):
        return []
    if isinstance(shape, Table):
        return {}
    if isinstance(shape, Record):
        record: Any = object.__new__(shape.cls)
        for f in shape.fields:
            object.__setattr__(record, f.name, empty(f.shape))
        return record
    if isinstance(shape, Symbols):
        return shape.symbols[0]
    if isinstance(shape, Exact):
        return Decimal(0)
    assert isinstance(shape, Plain)
    return _EMPTY[shape.kind]


def reads_personal(by: Callable[..., Any], record: Record) -> bool:
    """Whether the function of an index may read a personal field of the record. If in doubt, it may."""
    if not has_personal(record):
        return False
    return _may_read(by, record.cls, set(_personal_names(record)), set(_fields_with_personal(record)), set())


def _personal_names(shape: Shape) -> Iterator[str]:
    if isinstance(shape, Record):
        for f in shape.fields:
            if f.personal:
                yield f.name
            yield from _personal_names(f.shape)
    elif isinstance(shape, (Array, Table, Maybe)):
        yield from _personal_names(shape.inner)


def _fields_with_personal(shape: Shape) -> Iterator[str]:
    """The names of fields that contain personal fields at any depth."""
    if isinstance(shape, Record):
        for f in shape.fields:
            if has_personal(f.shape):
                yield f.name
            yield from _fields_with_personal(f.shape)
    elif isinstance(shape, (Array, Table, Maybe)):
        yield from _fields_with_personal(shape.inner)


def _may_read(function: Any, cls: type, personal: set[str], containers: set[str], seen: set[int]) -> bool:
    if not isinstance(function, FunctionType):
        return True
    if id(function) in seen:
        return False
    seen.add(id(function))
    names = set(names_of(function.__code__))
    if names & personal or names & _READS_ALL:
        return True
    if _makes_strings(function.__code__) and (names & containers or _uses_whole_variable(function.__code__)):
        return True
    used = [one for one in reached(function, cls) if callable(one) and not _is_harmless(one)]
    return any(_may_read(one, cls, personal, containers, seen) for one in used)


def _makes_strings(code: CodeType) -> bool:
    """Whether the code may turn a whole record into a string: with `str`, in an f-string, or with `%`."""
    return any(
        i.opname.startswith(("FORMAT_", "CONVERT_"))
        or (i.opname == "BINARY_OP" and i.argrepr == "%")
        or i.argval in _MAKE_STRINGS
        for i in _instructions(code)
    )


def _uses_whole_variable(code: CodeType) -> bool:
    """Whether the code uses a variable other than by its attributes. The variable may be the record or a part of it."""
    loaded_variable = False
    for i in _instructions(code):
        if loaded_variable and i.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return True
        loaded_variable = i.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and i.opname != "LOAD_FAST_AND_CLEAR"
    return False


def _instructions(code: CodeType) -> Iterator[Instruction]:
    yield from get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _is_harmless(one: Any) -> bool:
    return isinstance(one, type) or getattr(builtins, getattr(one, "__name__", ""), None) is one
