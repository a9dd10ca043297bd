"""What a proof makes of attributes and calls (`moneystate.runtime.personal_free`)."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import is_dataclass
from decimal import Decimal
from functools import cached_property
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from moneystate.api.handles import AnyIndex, Map, MapIndex, Value
from moneystate.api.view import first
from moneystate.records.shapes import Record, Shape, Table
from moneystate.runtime.personal_values import (
    FREE,
    Bound,
    Items,
    Known,
    OfDict,
    OfView,
    Partly,
    Parts,
    ThatView,
    Unproven,
    free_all,
    inner_of,
    items_of,
    joined,
    many,
    of_object,
    of_shape,
    truth,
)

COUNTS: Final = (len, bool)  # of any value: how many there are is not masked
_SAME_ITEMS: Final[tuple[Any, ...]] = (list, tuple, iter, reversed, first)
PURE: Final[tuple[Any, ...]] = (
    str, int, float, bytes, Decimal, abs, min, max, sum, any, all, round, sorted, set, frozenset, dict, enumerate, zip,
    range, ord, chr, divmod, pow, repr, ascii, format,
)  # fmt: skip
PURE_MODULES: Final = ("math", "re", "decimal", "hashlib", "_hashlib", "unicodedata")
_KEYED: Final[tuple[Any, ...]] = (sorted, min, max)
VIEW: Final = ("time_ms", "get", "entry", "entries", "find", "range")

ShapeOf = Callable[[Value[Any] | Map[Any]], Shape]
IsOpen = Callable[[AnyIndex[Any, Any]], bool]


class Calls(ABC):
    """Raises Unproven for everything that is not known."""

    def __init__(self, shape_of: ShapeOf | None = None, is_open: IsOpen | None = None) -> None:
        self.shape_of = shape_of
        self.is_open = is_open
        self.depth = 0

    @abstractmethod
    def call(self, function: FunctionType, given: list[Any], named: dict[str, Any]) -> Any:
        """The result of a function of Python."""

    @abstractmethod
    def check_key(self, key: Any) -> None:
        """Checks the argument `key` of `sorted`, `min` or `max`."""

    def attribute(self, of: Any, name: str) -> Any:
        if of == FREE and not name.startswith("_"):
            return FREE
        if isinstance(of, ThatView) and name in VIEW:
            return FREE if name == "time_ms" else OfView(name)
        if isinstance(of, Known) and isinstance(of.object, ModuleType) and hasattr(of.object, name):
            return of_object(getattr(of.object, name))
        if isinstance(of, Known) and not isinstance(of.object, (type, ModuleType)):
            return self._held(of, name)
        if isinstance(of, Partly) and isinstance(of.shape, Record):
            return self._member(of, of.shape, name)
        if isinstance(of, Partly) and isinstance(of.shape, Table) and name in ("keys", "values", "items", "get"):
            return OfDict(name, of.shape)
        raise Unproven(f"{name}: not looked into")

    def _held(self, owner: Known, name: str) -> Any:
        """A member of an object of the service's program, such as that of a method."""
        cls, held = type(owner.object), getattr(owner.object, "__dict__", {})
        static = inspect.getattr_static(cls, name, None)
        if has_own_attributes(cls) or cls.__module__.startswith("moneystate."):
            raise Unproven(f"{cls.__name__}.{name}: not looked into")
        if isinstance(static, property) and type(static.fget) is FunctionType:
            return self.call(static.fget, [owner], {})
        if isinstance(static, cached_property) and type(static.func) is FunctionType:
            return self.call(static.func, [owner], {})
        if name in held and not hasattr(type(static), "__set__") and _is_frozen(cls):
            return of_object(held[name])
        if type(static) is FunctionType:
            return Bound(static, owner)
        raise Unproven(f"{cls.__name__}.{name}: not looked into")

    def _member(self, record: Partly, shape: Record, name: str) -> Any:
        static = inspect.getattr_static(shape.cls, name, None)
        field = shape.field(name)
        if has_own_attributes(shape.cls):
            raise Unproven(f"{shape.cls.__name__} has its own way to read attributes")
        if isinstance(static, property) and type(static.fget) is FunctionType:
            return self.call(static.fget, [record], {})
        if field is not None and (not hasattr(static, "__get__") or inspect.ismemberdescriptor(static)):
            if field.personal:
                raise Unproven(f"{shape.cls.__name__}.{name} is personal")
            return of_shape(field.shape)
        if type(static) is FunctionType:
            return Bound(static, record)
        raise Unproven(f"{shape.cls.__name__}.{name}: not looked into")

    def known_call(self, target: Any, given: list[Any], named: dict[str, Any]) -> Any:
        if type(target) is MethodType:
            return self.known_call(target.__func__, [Known(target.__self__), *given], named)
        if type(target) is FunctionType and target is not first and target.__module__ not in PURE_MODULES:
            return self.call(target, given, named)
        if is_one_of(target, COUNTS) and len(given) == 1:
            return truth(given[0])
        if is_one_of(target, _SAME_ITEMS) and given:
            free_all([*given[1:], *named.values()])
            return many([items_of(given[0])])
        if target is next and given:
            return joined([items_of(given[0]), *given[1:]])
        if is_one_of(target, _KEYED) and "key" in named:
            free_all(given)
            self.check_key(named.pop("key"))
        is_error = isinstance(target, type) and issubclass(target, Exception)
        if (
            is_one_of(target, PURE)
            or is_error
            or _makes_record(target)
            or getattr(target, "__module__", None) in PURE_MODULES
        ):
            return free_all([*given, *named.values()])
        raise Unproven(f"{target!r}: not looked into")

    def got(self, paths: list[str], given: list[Any]) -> Any:
        got: list[Any] = []
        if len(given) != 1:
            raise Unproven("attrgetter of more than one object")
        for path in paths:
            value = given[0]
            for name in path.split("."):
                value = self.attribute(value, name)
            got.append(value)
        return got[0] if len(got) == 1 else Parts(got)

    def read(self, name: str, given: list[Any]) -> Any:
        """A method of the view. Its first argument is a handle."""
        handle = given[0].object if given and isinstance(given[0], Known) else None
        for one in given[1:]:
            if one != FREE:
                raise Unproven(f"{name}: by a value that may have personal fields")
        assert self.shape_of is not None
        assert self.is_open is not None
        if isinstance(handle, AnyIndex) and name in ("find", "range"):
            if not self.is_open(handle):
                raise Unproven(f"{handle!r} is personal")
            record = of_shape(self.shape_of(handle.of))
            return Items(Parts([FREE, FREE, record] if isinstance(handle, MapIndex) else [FREE, record]))
        if isinstance(handle, (Value, Map)) and name in ("get", "entry", "entries"):
            record = of_shape(self.shape_of(handle))
            return Items(Parts([FREE, record])) if name == "entries" else record
        raise Unproven(f"{name}: expected a handle of the service")


def of_dict(name: str, table: Table, given: list[Any]) -> Any:
    """A method of a dict."""
    free_all(given)
    if name == "keys":
        return FREE
    inner = inner_of(table)
    return inner if name == "get" else Items(inner if name == "values" else Parts([FREE, inner]))


def _is_frozen(cls: type) -> bool:
    """Whether its objects keep what they hold, so that a proof of today is one of tomorrow."""
    return is_dataclass(cls) and bool(getattr(cls, "__dataclass_params__").frozen)  # noqa: B009


def has_own_attributes(cls: type) -> bool:
    return inspect.getattr_static(cls, "__getattribute__") is not object.__dict__["__getattribute__"]


def is_one_of(target: Any, some: tuple[Any, ...]) -> bool:
    return any(target is one for one in some)


def _makes_record(target: Any) -> bool:
    """Whether it is a dataclass whose constructor only sets the fields."""
    if not isinstance(target, type) or not is_dataclass(target) or hasattr(target, "__post_init__"):
        return False
    init = target.__dict__.get("__init__")
    return type(init) is FunctionType and init.__code__.co_filename.startswith("<") and target.__new__ is object.__new__
