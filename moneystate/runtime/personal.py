"""Masks personal fields for callers who may not read them.

A masked field has the empty value of its type. Its path is sent beside the record, so that callers can distinguish it
from an empty value.
"""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any, Final

from moneystate.records.json_value import Json
from moneystate.records.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table, has_personal
from moneystate.runtime.personal_free import index_is_free

_EMPTY: Final[dict[str, Any]] = {
    "string": "", "long": 0, "millis": 0, "double": 0.0, "boolean": False, "bytes": b"", "json": Json("null"),
}  # fmt: skip


def blanked(shape: Shape, value: Any) -> Any:
    """A copy with empty values in personal fields."""
    if not has_personal(shape) or value is None:
        return value
    if isinstance(shape, Maybe):
        return blanked(shape.inner, value)
    if isinstance(shape, Array):
        return [_item(shape, item) for item in value]
    if isinstance(shape, Table):
        return {key: _item(shape, item) for key, item in value.items()}
    assert isinstance(shape, Record)
    masked = copy.copy(value)
    for f in shape.fields:
        # This avoids __init__, which may check its arguments.
        content = empty(f.shape) if f.personal else blanked(f.shape, getattr(value, f.name))
        object.__setattr__(masked, f.name, content)
    return masked


def _item(shape: Array | Table, item: Any) -> Any:
    return empty(shape.inner) if shape.personal else blanked(shape.inner, item)


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


def reads_personal(by: Any, record: Record) -> bool:
    """Whether the function of an index may read a personal field of the record. If in doubt, it may."""
    return not index_is_free(by, record)


def is_personal_path(record: Record, path: str) -> bool:
    """Whether a path of fields, such as `customer.email`, leads to or through a personal one."""
    shape: Shape = record
    for name in path.split("."):
        shape = shape.inner if isinstance(shape, Maybe) else shape
        field = shape.field(name) if isinstance(shape, Record) else None
        if field is None or field.personal:
            return field is not None
        shape = field.shape
    return False
