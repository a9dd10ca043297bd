"""References to plain services: MODULE:NAME, and the rules as JSON after a blank. Spark's processes and saved rules
use them.

NAME is a `Service`, or a factory: a function of one frozen dataclass that makes one. The dataclass is the service's
configuration and its rules at once.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, get_type_hints

from moneystate.api import rules as rule_data
from moneystate.api.service import Service
from moneystate.errors import ConfigError, ServiceError


class Made(NamedTuple):
    """A service and the rules that it runs by; None where it has none."""

    service: Service[Any]
    rules: Any


def path_of(reference: str) -> str:
    """MODULE:NAME."""
    return reference.partition(" ")[0]


def with_rules(reference: str, rules: Mapping[str, Any]) -> str:
    """The same service with these rules, as JSON data, in place of its own."""
    path, _, own = reference.partition(" ")
    merged = {**(json.loads(own) if own else {}), **rules}
    return f"{path} {json.dumps(merged, sort_keys=True, separators=(',', ':'))}" if merged else path


def service_at(reference: str) -> Service[Any]:
    return made_at(reference).service


def made_at(reference: str) -> Made:
    """Raises ServiceError, and ConfigError for rules that are none of its."""
    path, _, text = reference.partition(" ")
    module, _, name = path.partition(":")
    declared = getattr(import_module(module), name, None)
    if isinstance(declared, Service):
        return Made(declared, _merged(type(declared.rules), declared.rules, text, path))
    return _made(declared, text, path)


def factory_config(path: str, declared: Any) -> type:
    """The class of a factory's configuration. Raises ConfigError for what is neither a service nor a factory."""
    if not callable(declared):
        is_what = "there is none" if declared is None else f"it is a {type(declared).__name__}"
        raise ConfigError(
            f"{path}: expected a service or its factory, {is_what}.", "name what ms.Service made, or a factory."
        )
    hints = get_type_hints(declared)
    taken = [hints.get(name) for name in inspect.signature(declared).parameters]
    if len(taken) != 1 or not hasattr(taken[0], "__dataclass_params__"):
        raise ConfigError(
            f"{path}: expected a function of one configuration, a frozen dataclass.",
            "write def name(config: Config) -> ms.Service[Config].",
        )
    cls: type = taken[0]  # type: ignore[assignment]
    without = [f.name for f in fields(cls) if f.default is f.default_factory]
    if without:
        raise ServiceError(f"{path}: {cls.__name__} has no default for {', '.join(without)}.", "give it one.")
    return cls


def is_factory(path: str) -> bool:
    module, _, name = path.partition(":")
    return not isinstance(getattr(import_module(module), name, None), Service)


@lru_cache(maxsize=32)
def _made(make: Any, text: str, path: str) -> Made:
    """Once in each process: handles are compared by identity."""
    cls = factory_config(path, make)
    config = _merged(cls, cls(), text, path)
    service = make(config)
    if not isinstance(service, Service) or service.rules is not config:
        raise ServiceError(f"{path}: expected a service with the configuration as its rules.", "pass rules=config.")
    return Made(service, config)


def _merged(cls: type, own: Any, text: str, path: str) -> Any:
    if not text:
        return own
    return rule_data.read(cls, {**rule_data.plain(own), **json.loads(text)}, path)
