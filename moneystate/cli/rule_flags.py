"""A plain service's rules as flags of its commands.

A rule `wait_ms` is the flag `--wait` with a duration, any other rule the flag of its name. With several services,
`--orders.wait` is the rule of the service orders alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from moneystate.api.job import service_at
from moneystate.api.service import Service
from moneystate.cli.durations import parse_ms
from moneystate.cli.services import load
from moneystate.errors import ConfigError

MS = "_ms"
TRUTH = {"true": True, "false": False}


class Given(NamedTuple):
    """A command's words: services and rules."""

    services: list[str]
    rules: list[tuple[str, str]]


def parted(words: Sequence[str]) -> Given:
    """Raises ConfigError for a flag without its value."""
    services: list[str] = []
    rules: list[tuple[str, str]] = []
    left = iter(words)
    for word in left:
        if not word.startswith("--"):
            services.append(word)
            continue
        name, equals, value = word.partition("=")
        if not equals:
            value = next(left, "--")
            if value.startswith("--"):
                raise ConfigError(f"{name}: expected a value.", f"write {name}=VALUE.")
        rules.append((name, value))
    return Given(services, rules)


def rules_by_service(services: Sequence[Service[Any]], given: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The rules that flags give, for each service. Raises ConfigError for a flag that is none of theirs."""
    by_service: list[dict[str, Any]] = [{} for _ in services]
    for name, text in given:
        pairs = zip(services, by_service, strict=True)
        mine = [(rules, rule) for service, rules in pairs if (rule := _rule(service, name)) is not None]
        if not mine:
            known = sorted({flag for service in services for flag in flags(service)})
            raise ConfigError(f"{name}: there is no such flag.", f"rules here are {', '.join(known) or 'none'}.")
        for rules, (its_name, default) in mine:
            rules[its_name] = _value(name, text, its_name, default)
    return by_service


def rules_given(service: str, words: Sequence[str]) -> dict[str, Any]:
    """The rules among the words of a command of one service, MODULE:SERVICE. Raises ConfigError for other words."""
    given = parted(words)
    if given.services:
        raise ConfigError(f"{given.services[0]}: expected flags alone.", "name the service as --service.")
    if not service:
        if given.rules:
            raise ConfigError(f"{given.rules[0][0]}: there is no such flag.")
        return {}
    return rules_by_service([service_at(load(service))], given.rules)[0]


def flags(service: Service[Any]) -> Mapping[str, tuple[str, Any]]:
    """Of a service's rules: name of the rule and its default."""
    if service.rules is None:
        return {}
    names = [f.name for f in fields(service.rules)]
    return {_flag(name): (name, getattr(service.rules, name)) for name in names}


def _flag(rule: str) -> str:
    return "--" + rule.removesuffix(MS).replace("_", "-")


def _rule(service: Service[Any], name: str) -> tuple[str, Any] | None:
    return flags(service).get(name.replace(f"--{service.name}.", "--", 1))


def _value(name: str, text: str, rule: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text not in TRUTH:
            raise ConfigError(f"{name} {text}: expected true or false.")
        return TRUTH[text]
    if isinstance(default, int) and rule.endswith(MS):
        return parse_ms(text, name)
    try:
        return type(default)(text)
    except ValueError:
        raise ConfigError(
            f"{name} {text}: expected {'a whole number' if isinstance(default, int) else 'a number'}."
        ) from None
