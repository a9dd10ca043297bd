"""References to services: MODULE:NAME, then optionally a blank and the rules as JSON. Spark's processes and saved
rules contain them.

NAME is a `Service` or a factory: a function that takes one frozen dataclass and returns a `Service`. The dataclass is
both the service's configuration and its rules.
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
    """A service, with the rules that it runs with."""

    service: Service[Any]
    rules: Any  # None: the service has no rules


def path_of(reference: str) -> str:
    """The MODULE:NAME of a reference."""
    return reference.partition(" ")[0]


def with_rules(reference: str, rules: Mapping[str, Any]) -> str:
    """The reference with `rules`, as JSON data, added to its own."""
    path, _, earlier = reference.partition(" ")
    merged = {**(json.loads(earlier) if earlier else {}), **rules}
    return f"{path} {json.dumps(merged, sort_keys=True, separators=(',', ':'))}" if merged else path


def given_in(reference: str) -> dict[str, Any]:
    """The rules that the reference gives."""
    _, _, text = reference.partition(" ")
    rules: dict[str, Any] = json.loads(text) if text else {}
    return rules


def service_at(reference: str) -> Service[Any]:
    return made_at(reference).service


def made_at(reference: str) -> Made:
    """The service and rules of a reference. Raises ServiceError, and ConfigError for invalid rules."""
    path, _, text = reference.partition(" ")
    module, _, name = path.partition(":")
    declared = getattr(import_module(module), name, None)
    if isinstance(declared, Service):
        return Made(declared, _merged(type(declared.rules), declared.rules, text, path))
    return _make(declared, text, path)


def factory_config(path: str, declared: Any) -> type:
    """The class of a factory's configuration. Raises ConfigError if `declared` is not a factory."""
    if not callable(declared):
        actual = "nothing" if declared is None else f"an object of {type(declared).__name__}"
        raise ConfigError(
            f"{path}: expected a service or its factory, found {actual}.",
            "name a variable with a ms.Service, or a factory.",
        )
    hints = get_type_hints(declared)
    types = [hints.get(name) for name in inspect.signature(declared).parameters]
    if len(types) != 1 or not hasattr(types[0], "__dataclass_params__"):
        raise ConfigError(
            f"{path}: expected a function of one configuration, a frozen dataclass.",
            "write def name(config: Config) -> ms.Service[Config].",
        )
    cls: type = types[0]  # type: ignore[assignment]
    required = [f.name for f in fields(cls) if f.default is f.default_factory]
    if required:
        raise ServiceError(f"{path}: {cls.__name__} has no default for {', '.join(required)}.", "add a default.")
    return cls


def is_factory(path: str) -> bool:
    module, _, name = path.partition(":")
    return not isinstance(getattr(import_module(module), name, None), Service)


@lru_cache(maxsize=32)
def _make(make: Any, text: str, path: str) -> Made:
    """Calls the factory. The result is cached, because handles are compared by identity."""
    cls = factory_config(path, make)
    config = _merged(cls, cls(), text, path)
    service = make(config)
    if not isinstance(service, Service) or service.rules is not config:
        raise ServiceError(
            f"{path}: expected the factory to pass its configuration as rules.", "pass rules=config to ms.Service."
        )
    return Made(service, config)


def _merged(cls: type, own: Any, text: str, path: str) -> Any:
    if not text:
        return own
    return rule_data.read(cls, {**rule_data.plain(own), **json.loads(text)}, path)
