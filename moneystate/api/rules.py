"""A service's rules and configuration as data: what a plan keeps, and what a configuration file contains.

A field may be an int, a text, a truth value, a finite float, a `Literal` of texts, `X | None`, `tuple[X, ...]`,
`tuple[X, Y]`, `dict[str, X]` or a frozen dataclass of these. A plan keeps them as JSON by the names of the fields. A
configuration file gives a field `wait_ms` as `wait` with a duration such as `30m`.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from moneystate.errors import ConfigError

R = TypeVar("R")
MS: Final = "_ms"
SCALARS: Final = (bool, int, float, str)

# Milliseconds of a duration's text; the second argument names the place.
ParseDuration = Callable[[str, str], int]


def plain(value: Any) -> Any:
    """Rules as JSON data; what `read` takes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(content) for key, content in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(content) for content in value]
    return value


def read(cls: type[R], data: Any, where: str, duration: ParseDuration | None = None, own: R | None = None) -> R:
    """The rules that `data` gives; a field that it leaves out is as in `own`, else it has its default. With `duration`,
    as a configuration file has them, else as `plain` made them. Raises ConfigError that names the place in `where`."""
    return typing.cast("R", _record(cls, data, where, duration, own))


def field_types(cls: type) -> dict[str, Any]:
    """The type of each field."""
    return get_type_hints(cls)


def file_name(field: str) -> str:
    """A field as a configuration file names it."""
    return field.removesuffix(MS)


def is_scalar(declared: Any) -> bool:
    """Whether a field of this type can be given as one flag."""
    inner = _without_none(declared)
    return inner in SCALARS or get_origin(inner) is Literal


def from_text(declared: Any, text: str, is_duration: bool, where: str, duration: ParseDuration) -> Any:
    """A flag's value. Raises ConfigError."""
    inner = _without_none(declared)
    if is_duration and inner is int:
        return duration(text, where)
    if inner is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"{where} {text}: expected true or false, found another word.", "write true or false.")
        return text == "true"
    if get_origin(inner) is Literal:
        return _value(inner, text, where, duration)
    try:
        value = inner(text)
    except ValueError:
        raise ConfigError(f"{where} {text}: expected {_NAMES[inner]}, found {text!r}.", "mend the value.") from None
    if not _is_finite(value):
        raise ConfigError(f"{where} {text}: expected {_NAMES[inner]}, found {text!r}.", "mend the value.")
    return value


def problem_of(value: Any, path: str = "") -> str:
    """What makes a value no rule; empty where nothing does."""
    if not _is_finite(value):
        return f"{path} is {value}, which JSON does not have"
    if value is None or type(value) in SCALARS:
        return ""
    if is_dataclass(value) and not isinstance(value, type):
        if not type(value).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return f"{path or type(value).__name__} is no frozen dataclass"
        each = [(f"{path}.{f.name}" if path else f.name, getattr(value, f.name)) for f in fields(value)]
    elif type(value) is tuple:
        each = [(f"{path}[{n}]", content) for n, content in enumerate(value)]
    elif isinstance(value, Mapping):
        each = [(f"{path}.{key}", content) for key, content in value.items()]
    else:
        return f"{path} is a {type(value).__name__}"
    return next((problem for name, content in each if (problem := problem_of(content, name))), "")


def _record(cls: Any, data: Any, where: str, duration: ParseDuration | None, own: Any = None) -> Any:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected a table, found {data!r}.", "write it as a table.")
    declared = field_types(cls)
    names = {(file_name(f.name) if duration else f.name): f for f in fields(cls)}
    # a plan of an earlier version may have kept a rule that is none any more
    unknown = [key for key in data if duration and key.replace("-", "_") not in names]
    if unknown:
        raise ConfigError(f"{where}: expected another key, found {unknown[0]!r}.", f"use {', '.join(sorted(names))}.")
    given = {key.replace("-", "_"): content for key, content in data.items()}
    values = {}
    for name, f in names.items():
        mine = None if own is None else getattr(own, f.name)
        if name in given:
            is_duration = duration is not None and name != f.name
            values[f.name] = _value(
                declared[f.name], given[name], f"{where}.{name}", duration, is_duration=is_duration, own=mine
            )
        elif own is not None:
            values[f.name] = mine
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ConfigError(f"{where}: expected the key {name!r}, found none.", "add it.")
    return cls(**values)


def _value(
    declared: Any, data: Any, where: str, duration: ParseDuration | None, *, is_duration: bool = False, own: Any = None
) -> Any:
    if data is None and declared is not (inner := _without_none(declared)):
        return None
    inner = _without_none(declared)
    origin, args = get_origin(inner), get_args(inner)
    if is_dataclass(inner):
        return _record(inner, data, where, duration, own)
    if origin is tuple:
        if not isinstance(data, list):
            raise ConfigError(f"{where}: expected a list, found {data!r}.", "write it as a list.")
        each = [args[0]] * len(data) if args[1:] == (...,) else args
        if len(data) != len(each):
            raise ConfigError(f"{where}: expected a list of {len(each)}, found one of {len(data)}.", "mend the list.")
        pairs = zip(each, data, strict=True)
        return tuple(_value(element, content, f"{where}[{n}]", duration) for n, (element, content) in enumerate(pairs))
    if origin is dict:
        if not isinstance(data, Mapping):
            raise ConfigError(f"{where}: expected a table, found {data!r}.", "write it as a table.")
        return {str(key): _value(args[1], content, f"{where}.{key}", duration) for key, content in data.items()}
    if is_duration and inner is int and duration is not None:
        if not isinstance(data, str):
            raise ConfigError(f"{where}: expected a duration, found {data!r}.", "for example '500ms', '20s' or '1d'.")
        return duration(data, where)
    if origin is Literal:
        if data not in args:
            raise ConfigError(
                f"{where}: expected one of {', '.join(map(str, args))}, found {data!r}.", "mend the value."
            )
        return data
    if inner is float and type(data) is int:
        return float(data)
    if type(data) is not inner or not _is_finite(data):
        raise ConfigError(f"{where}: expected {_NAMES.get(inner, str(inner))}, found {data!r}.", "mend the value.")
    return data


def _is_finite(value: Any) -> bool:
    """JSON has no other numbers, and NaN is never the rule that a checkpoint has kept."""
    return type(value) is not float or math.isfinite(value)


_NAMES: Final = {int: "a whole number", str: "a text", bool: "true or false", float: "a finite number"}


def _without_none(declared: Any) -> Any:
    """`X` of `X | None`."""
    if get_origin(declared) in (typing.Union, types.UnionType):
        others = [one for one in get_args(declared) if one is not type(None)]
        if len(others) == 1:
            return others[0]
    return declared
