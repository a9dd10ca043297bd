"""How records are made when they are read: by setting their fields, or by their constructors."""

from __future__ import annotations

from typing import Any

from moneystate.records.shapes import Array, Maybe, Record, Shape, Table


def has_dict(record: Record) -> bool:
    """Whether setting `__dict__` does what the constructor does. A field with a slot, even of a base class, is not in
    `__dict__`. A class may have a constructor of its own, which `@dataclass` keeps."""
    cls: Any = record.cls
    params = cls.__dataclass_params__
    has_slots = any("__slots__" in vars(c) for c in cls.__mro__)
    sets_fields = params.frozen or cls.__setattr__ is object.__setattr__
    is_made = params.init and cls.__new__ is object.__new__ and cls.__init__.__code__.co_filename == "<string>"
    return is_made and sets_fields and not has_slots and not hasattr(cls, "__post_init__")


def runs_code(shape: Shape) -> bool:
    """Whether a record of the shape runs code of the service when it is read: a constructor or a `__post_init__`."""
    if not isinstance(shape, Record):
        return any(runs_code(record) for record in records_in(shape))
    cls: Any = shape.cls
    is_made = cls.__new__ is object.__new__ and cls.__init__.__code__.co_filename == "<string>"
    return not is_made or hasattr(cls, "__post_init__") or any(runs_code(f.shape) for f in shape.fields)


def records_in(shape: Shape) -> list[Record]:
    if isinstance(shape, Record):
        return [shape]
    return records_in(shape.inner) if isinstance(shape, (Maybe, Array, Table)) else []
