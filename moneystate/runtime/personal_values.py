"""What a proof knows of values (`moneystate.runtime.personal_free`)."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from decimal import Decimal
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from moneystate.records.shapes import Array, Maybe, Record, Shape, Table, has_personal

if TYPE_CHECKING:
    from moneystate.runtime.personal_free import Scope

_PLAIN: Final = (str, int, float, bool, bytes, Decimal, type(None))


class Unproven(Exception):
    """The function may have read a personal field. The text says where."""


@dataclass(frozen=True)
class Free:
    """Nothing personal is in it."""


@dataclass(frozen=True)
class Partly:
    """A record, list or dict with personal fields in it."""

    shape: Shape


@dataclass(frozen=True)
class Items:
    """Any number of such values."""

    item: Any


@dataclass(frozen=True)
class Parts:
    """A tuple of such values."""

    parts: list[Any]


@dataclass(frozen=True, eq=False)
class Known:
    """An object of the program. Two objects are never the same one because they are equal."""

    object: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.object is other.object

    def __hash__(self) -> int:
        return id(self.object)


@dataclass(frozen=True)
class Bound:
    """A method of a record, or of an object of the program."""

    function: FunctionType
    owner: Partly | Known


@dataclass(frozen=True)
class OfDict:
    """A method of a dict that has personal fields."""

    name: str
    shape: Table


@dataclass(frozen=True)
class ThatView:
    """The view of a query."""


@dataclass(frozen=True)
class OfView:
    """A method of the view."""

    name: str


@dataclass(frozen=True)
class Getter:
    """The result of `operator.attrgetter`."""

    paths: list[str]


@dataclass(frozen=True)
class Closure:
    """A lambda."""

    tree: ast.Lambda
    scope: Scope


FREE: Final = Free()


def of_shape(shape: Shape) -> Any:
    while isinstance(shape, Maybe):
        shape = shape.inner
    return Partly(shape) if has_personal(shape) else FREE


def of_object(one: Any) -> Any:
    is_plain = type(one) in _PLAIN or (type(one) in (tuple, frozenset) and all(type(part) in _PLAIN for part in one))
    return FREE if is_plain else Known(one)


def items_of(value: Any) -> Any:
    """Returns what iteration over the value gives."""
    match value:
        case Free() | Partly(Table()):  # of a dict the keys
            return FREE
        case Items(item):
            return item
        case Parts(parts):
            return joined(parts)
        case Partly(Array() as shape):
            return inner_of(shape)
    raise Unproven("iteration over something that is not looked into")


def inner_of(shape: Array | Table) -> Any:
    if shape.personal:
        raise Unproven("the items are personal")
    return of_shape(shape.inner)


def many(values: list[Any]) -> Any:
    item = joined(values)
    return FREE if item == FREE else Items(item)


def joined(values: list[Any]) -> Any:
    """A value that is one of these. What is free among them needs no care of its own."""
    kinds = [value for n, value in enumerate(values) if value != FREE and value not in values[:n]]
    if len(kinds) > 1:
        raise Unproven("a value of different kinds")
    return kinds[0] if kinds else FREE


def free_all(values: list[Any]) -> Any:
    if any(value != FREE for value in values):
        raise Unproven("a call with a value that may have personal fields")
    return FREE


def truth(value: Any) -> Any:
    """Whether it is true tells no personal field."""
    if isinstance(value, Partly) and isinstance(value.shape, Record):
        if any(hasattr(value.shape.cls, name) for name in ("__bool__", "__len__")):
            raise Unproven(f"{value.shape.cls.__name__} decides itself whether it is true")
    elif isinstance(value, Known):
        raise Unproven(f"{value.object!r}: not looked into")
    return FREE


def is_masked(value: Any, shape: Shape) -> bool:
    """Whether everything that is personal in `value` is masked in an answer of the shape."""
    while isinstance(shape, Maybe):
        shape = shape.inner
    if value == FREE or (isinstance(value, Partly) and value.shape == shape):
        return True
    return (
        isinstance(value, Items) and isinstance(shape, Array) and (shape.personal or is_masked(value.item, shape.inner))
    )
