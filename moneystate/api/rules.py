"""A service's rules and configuration as data, in a plan and in a configuration file.

A field may be an int, str, bool or finite float, a `Literal` of strings, `X | None`, `tuple[X, ...]`, `tuple[X, Y]`,
`dict[str, X]` or a frozen dataclass of these. A plan stores the rules as JSON by field name. In a configuration file,
the field `wait_ms` is named `wait` and has a duration such as `30m`.
"""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from moneystate.errors import ConfigError

R = TypeVar("R")
MS: Final = "_ms"
NUMBER_BITS: Final = 64  # of a whole number, with its sign
SHOWN_CHARACTERS: Final = 200  # of a value in an error
SCALARS: Final = (bool, int, float, str)

# Parses a duration to milliseconds. The second argument says where the text is, for errors.
ParseDuration = Callable[[str, str], int]


@dataclass(frozen=True)
class Rule:
    """Limits of a rule, both included: `limit_cents: Annotated[int, ms.Rule(minimum=0)] = 100`. The value None has no
    limit. A condition of several rules belongs into `__post_init__`, which raises ValueError."""

    minimum: float | None = None
    maximum: float | None = None

    def wrong(self, value: Any) -> str:
        """Returns what was expected instead of the value; empty: it is within the limits."""
        if type(value) not in (int, float):
            return ""
        if self.minimum is not None and value < self.minimum:
            return f"{self.minimum} or more"
        if self.maximum is not None and value > self.maximum:
            return f"{self.maximum} or less"
        return ""


@functools.lru_cache(maxsize=64)
def limits_of(cls: type) -> Mapping[str, Rule]:
    """The limits of the fields that have some."""
    hints = get_type_hints(cls, include_extras=True).items()
    limits = {name: [m for m in get_args(hint)[1:] if isinstance(m, Rule)] for name, hint in hints if _has_notes(hint)}
    return {name: rules[0] for name, rules in limits.items() if rules}


def _has_notes(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def wrong_rule(cls: type, rule: str, value: Any) -> str:
    """Returns what was expected instead of the value of a rule; empty: it is within the limits."""
    limits = limits_of(cls).get(rule)
    return "" if limits is None else limits.wrong(value)


def plain(value: Any) -> Any:
    """Rules as JSON data. `read` is the inverse."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(content) for key, content in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(content) for content in value]
    return value


def read(cls: type[R], data: Any, where: str, duration: ParseDuration | None = None, own: R | None = None) -> R:
    """The rules in `data`. A missing field has the value in `own`, or its default. With `duration`, the data has the
    form of a configuration file, else the form of `plain`. Raises ConfigError, which says where in `where` the problem
    is."""
    return typing.cast("R", _record(cls, data, where, duration, own))


def field_types(cls: type) -> dict[str, Any]:
    """The type of each field."""
    return get_type_hints(cls)


def file_name(field: str) -> str:
    """The name of a field in a configuration file."""
    return field.removesuffix(MS)


def is_scalar(declared: Any) -> bool:
    """Whether a field of this type can be a flag."""
    inner = _without_none(declared)
    return inner in SCALARS or get_origin(inner) is Literal


def from_text(declared: Any, text: str, is_duration: bool, where: str, duration: ParseDuration) -> Any:
    """Parses a flag's value. Raises ConfigError."""
    inner = _without_none(declared)
    if is_duration and inner is int:
        return duration(text, where)
    if inner is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"{where} {text}: expected true or false, found {text!r}.", "write true or false.")
        return text == "true"
    if get_origin(inner) is Literal:
        return _value(inner, text, where, duration)
    try:
        value = inner(text)
    except ValueError:
        value = math.nan
    if not _is_finite(value):
        raise ConfigError(f"{where} {text}: expected {_NAMES[inner]}, found {_shown(text)}.", "correct the value.")
    return value


def problem_of(value: Any, path: str = "") -> str:
    """Returns why a value cannot be a rule; empty: it can."""
    if not _is_finite(value):
        return f"{path} is {value}, which JSON cannot represent"
    if value is None or type(value) in SCALARS:
        return ""
    if is_dataclass(value) and not isinstance(value, type):
        if not type(value).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return f"{path or type(value).__name__} is not a frozen dataclass"
        for f in fields(value):
            if expected := wrong_rule(type(value), f.name, getattr(value, f.name)):
                return f"{path}.{f.name}".lstrip(".") + f" is {getattr(value, f.name)}, expected {expected}"
        parts = [(f"{path}.{f.name}" if path else f.name, getattr(value, f.name)) for f in fields(value)]
    elif type(value) is tuple:
        parts = [(f"{path}[{n}]", content) for n, content in enumerate(value)]
    elif isinstance(value, Mapping):
        parts = [(f"{path}.{key}", content) for key, content in value.items()]
    else:
        return f"{path} is a {type(value).__name__}"
    return next((problem for name, content in parts if (problem := problem_of(content, name))), "")


def _record(cls: Any, data: Any, where: str, duration: ParseDuration | None, own: Any = None) -> Any:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected a table, found {_shown(data)}.", "write it as a table.")
    declared = field_types(cls)
    names = {(file_name(f.name) if duration else f.name): f for f in fields(cls)}
    # a plan may have rules that were removed later; only a configuration file must not have unknown keys
    unknown = [key for key in data if duration and key.replace("-", "_") not in names]
    if unknown:
        raise ConfigError(f"{where}: expected a known key, found {unknown[0]!r}.", f"use {', '.join(sorted(names))}.")
    contents = {key.replace("-", "_"): content for key, content in data.items()}
    values = {}
    for name, f in names.items():
        own_value = None if own is None else getattr(own, f.name)
        if name in contents:
            is_duration = duration is not None and name != f.name
            values[f.name] = _value(
                declared[f.name], contents[name], f"{where}.{name}", duration, is_duration=is_duration, own=own_value
            )
        elif own is not None:
            values[f.name] = own_value
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ConfigError(f"{where}: expected the key {name!r}, found none.", "add it.")
    for rule, value in values.items():
        if expected := wrong_rule(cls, rule, value):
            name = file_name(rule) if duration else rule
            raise ConfigError(f"{where}.{name}: expected {expected}, found {_shown(value)}.", "correct the value.")
    return made(cls, values, where)


def made(cls: Any, values: Mapping[str, Any], where: str) -> Any:
    """The rules with these values. Raises ConfigError for values that `__post_init__` does not accept."""
    try:
        return cls(**values)
    except ConfigError:
        raise
    except Exception as e:
        raise ConfigError(
            f"{where}: expected rules that {cls.__name__} accepts, but {type(e).__name__}: {str(e).rstrip('.')}.",
            "correct the values.",
        ) from e


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
            raise ConfigError(f"{where}: expected a list, found {_shown(data)}.", "write it as a list.")
        types_of_items = [args[0]] * len(data) if args[1:] == (...,) else args
        if len(data) != len(types_of_items):
            raise ConfigError(
                f"{where}: expected a list of {len(types_of_items)}, found one of {len(data)}.", "correct the list."
            )
        pairs = zip(types_of_items, data, strict=True)
        return tuple(_value(element, content, f"{where}[{n}]", duration) for n, (element, content) in enumerate(pairs))
    if origin is dict:
        if not isinstance(data, Mapping):
            raise ConfigError(f"{where}: expected a table, found {_shown(data)}.", "write it as a table.")
        return {str(key): _value(args[1], content, f"{where}.{key}", duration) for key, content in data.items()}
    if is_duration and inner is int and duration is not None:
        if not isinstance(data, str):
            raise ConfigError(
                f"{where}: expected a duration, found {_shown(data)}.", "write it like '500ms', '20s' or '1d'."
            )
        return duration(data, where)
    if origin is Literal:
        if data not in args:
            raise ConfigError(
                f"{where}: expected one of {', '.join(map(str, args))}, found {_shown(data)}.", "correct the value."
            )
        return data
    if inner is float and type(data) is int and _is_finite(data):
        return float(data)
    if type(data) is not inner or not _is_finite(data):
        raise ConfigError(
            f"{where}: expected {_NAMES.get(inner, str(inner))}, found {_shown(data)}.", "correct the value."
        )
    return data


def _is_finite(value: Any) -> bool:
    """JSON has no infinite numbers, and NaN would never equal the rule in a checkpoint. A reader of JSON may refuse
    longer numbers than ours."""
    if type(value) is int:
        return value.bit_length() < NUMBER_BITS
    return type(value) is not float or math.isfinite(value)


def _shown(data: Any) -> str:
    """A value for an error, cut off if it is long."""
    try:
        text = repr(data)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number with too many digits"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


_NAMES: Final = {int: "a whole number", str: "a string", bool: "true or false", float: "a finite number"}


def _without_none(declared: Any) -> Any:
    """`X` for `X | None`, any other type unchanged."""
    if get_origin(declared) in (typing.Union, types.UnionType):
        others = [one for one in get_args(declared) if one is not type(None)]
        if len(others) == 1:
            return others[0]
    return declared
