"""Masks fields that are marked as personal for callers who may not read them.

A blanked field has the empty value of its type. Its path is told beside the record, so that nobody takes it for one.
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
_MAKE_TEXTS: Final = {"str", "ascii", "format", "format_map", "print", "__str__", "__format__"}


def has_personal(shape: Shape) -> bool:
    if isinstance(shape, Record):
        return any(f.personal or has_personal(f.shape) for f in shape.fields)
    return isinstance(shape, (Maybe, Array, Table)) and has_personal(shape.of)


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
    return _may_read(by, record.cls, set(_personal_names(record)), set(_holders(record)), set())


def _personal_names(shape: Shape) -> Iterator[str]:
    if isinstance(shape, Record):
        for f in shape.fields:
            if f.personal:
                yield f.name
            yield from _personal_names(f.shape)
    elif isinstance(shape, (Array, Table, Maybe)):
        yield from _personal_names(shape.of)


def _holders(shape: Shape) -> Iterator[str]:
    """Fields with personal fields somewhere in them."""
    if isinstance(shape, Record):
        for f in shape.fields:
            if has_personal(f.shape):
                yield f.name
            yield from _holders(f.shape)
    elif isinstance(shape, (Array, Table, Maybe)):
        yield from _holders(shape.of)


def _may_read(function: Any, cls: type, personal: set[str], holders: set[str], seen: set[int]) -> bool:
    if not isinstance(function, FunctionType):
        return True
    if id(function) in seen:
        return False
    seen.add(id(function))
    names = set(names_of(function.__code__))
    if names & personal or names & _READS_ALL:
        return True
    if _makes_texts(function.__code__) and (names & holders or _uses_whole(function.__code__)):
        return True
    used = [one for one in reached(function, cls) if callable(one) and not _is_harmless(one)]
    return any(_may_read(one, cls, personal, holders, seen) for one in used)


def _makes_texts(code: CodeType) -> bool:
    """Whether a text may be made of a whole record: by `str`, in an f-string, with `%`."""
    return any(
        i.opname.startswith(("FORMAT_", "CONVERT_"))
        or (i.opname == "BINARY_OP" and i.argrepr == "%")
        or i.argval in _MAKE_TEXTS
        for i in _instructions(code)
    )


def _uses_whole(code: CodeType) -> bool:
    """Whether a variable is used in another way than for its attributes: it may be the record, or a part of it."""
    whole = False
    for i in _instructions(code):
        if whole and i.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return True
        whole = i.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and i.opname != "LOAD_FAST_AND_CLEAR"
    return False


def _instructions(code: CodeType) -> Iterator[Instruction]:
    yield from get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _is_harmless(one: Any) -> bool:
    return isinstance(one, type) or getattr(builtins, getattr(one, "__name__", ""), None) is one
