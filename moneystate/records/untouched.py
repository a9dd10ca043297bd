"""Finds out what a step has left, without encoding or reading the record.

Most steps only read some of their records. So before a step gets a record, the objects in it are noted. If all of them
are the same objects afterwards, and none of them can be changed in place, the record is as it was. This is for records
of texts, numbers and such, of lists of these, and of frozen records. Others are always encoded.
"""

from __future__ import annotations

from typing import Any, Final

from moneystate.records import shapes
from moneystate.records.construction import has_dict
from moneystate.records.json_value import Json
from moneystate.records.shapes import Array, Maybe, Plain, Record, Shape, Symbols, is_immutable

ABSENT: Final = object()
TYPES: Final = {
    "string": str, "bytes": bytes, "long": int, "millis": int, "double": float, "boolean": bool, "json": Json,
}  # fmt: skip


class Fields:
    """The fields of a type of record."""

    def __init__(self, record: Record) -> None:
        self.lists = [f.name for f in record.fields if isinstance(f.shape, Array)]


class Noted:
    """The objects in a record, as a step gets it."""

    def __init__(self, fields: Fields, record: Any) -> None:
        self.fields = fields
        self.record = record
        values: dict[str, Any] = record.__dict__
        self.values: dict[str, Any] = values.copy()
        self.items: list[list[Any]] = [values[name].copy() for name in fields.lists]

    def holds(self, record: Any) -> bool:
        """Whether this is the same record, with the same objects."""
        if record is not self.record:
            return False
        values: dict[str, Any] = record.__dict__
        if len(values) != len(self.values):
            return False
        for name, value in self.values.items():
            if values.get(name, ABSENT) is not value:
                return False
        for n in range(len(self.items)):
            items, now = self.items[n], self.values[self.fields.lists[n]]
            if len(items) != len(now):
                return False
            for i in range(len(items)):
                if items[i] is not now[i]:
                    return False
        return True


class Exact:
    """The types of a record of plain fields."""

    def __init__(self, record: Record) -> None:
        self.cls: Any = record.cls
        self.names: list[str] = []
        self.types: list[Any] = []
        self.optional: list[bool] = []
        for f in record.fields:
            self.names.append(f.name)
            self.types.append(_type_of(f.shape))
            self.optional.append(isinstance(f.shape, Maybe))

    def holds(self, record: Any) -> bool:
        """Whether the record is the same as one that is read from its bytes."""
        if type(record) is not self.cls:
            return False
        values: dict[str, Any] = record.__dict__
        if len(values) != len(self.names):
            return False
        for n in range(len(self.names)):
            value = values.get(self.names[n], ABSENT)
            if type(value) is not self.types[n] and not (value is None and self.optional[n]):
                return False
        return True


def exact_of(record: Record) -> Exact | None:
    """None: only reading a record tells."""
    return Exact(record) if has_dict(record) and all(_type_of(f.shape) for f in record.fields) else None


def _type_of(shape: Shape) -> type | None:
    """The only type that a value has when it is read; None: that depends on more than the type."""
    inner = shape.inner if isinstance(shape, Maybe) else shape
    if isinstance(inner, Symbols):
        return str
    return TYPES[inner.kind] if isinstance(inner, Plain) else None


def fields_of(record: Record) -> Fields | None:
    """None: the record has to be encoded."""
    if not has_dict(record) or not record.fields:
        return None
    return Fields(record) if all(_is_fixed(_item_of(f.shape)) for f in record.fields) else None


def _item_of(shape: Shape) -> Shape:
    return shape.inner if isinstance(shape, Array) else shape


def _is_fixed(shape: Shape) -> bool:
    """Whether a value of the shape, as it is read, cannot be changed in place."""
    if isinstance(shape, Maybe):
        return _is_fixed(shape.inner)
    if isinstance(shape, Record):
        return is_immutable(shape)
    return isinstance(shape, (Plain, shapes.Exact, Symbols))
