"""A service's rules as flags of its commands.

A rule `wait_ms` is the flag `--wait` with a duration. Any other rule is the flag with its name. With several services,
`--orders.wait` sets the rule only for the service orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, NamedTuple

from moneystate.api.rules import MS, field_types, file_name, from_text, is_scalar, wrong_rule
from moneystate.cli.durations import parse_ms
from moneystate.errors import ConfigError
from moneystate.runtime.reference import Made, made_at


class Flag(NamedTuple):
    """A rule as a flag."""

    rule: str
    declared: Any  # the rule's type
    cls: type  # of the service's rules


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
                raise ConfigError(f"{name}: expected a value, found none.", f"write {name}=VALUE.")
        rules.append((name, value))
    return Given(services, rules)


def rules_by_service(
    references: Sequence[str], given: Sequence[tuple[str, str]], own: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The rules that flags set, for each service. `own`: the flags of the command. Raises ConfigError for a flag that
    is none of these and that no service has."""
    services = [made_at(reference) for reference in references]
    by_service: list[dict[str, Any]] = [{} for _ in services]
    for name, text in given:
        pairs = zip(services, by_service, strict=True)
        mine = [(rules, flag) for made, rules in pairs if (flag := _flag_of(made, name)) is not None]
        if not mine:
            known = sorted({flag for made in services for flag in flags(made.rules)})
            raise ConfigError(
                f"{name}: expected a flag of the command or a rule of the service, found neither.",
                _instead_of(name, known, own),
            )
        for rules, flag in mine:
            value = from_text(flag.declared, text, flag.rule.endswith(MS), name, parse_ms)
            if expected := wrong_rule(flag.cls, flag.rule, value):
                raise ConfigError(f"{name}: expected {expected}, found {text}.", "correct the value.")
            rules[flag.rule] = value
    return by_service


def _instead_of(name: str, rules: Sequence[str], own: Sequence[str]) -> str:
    """Returns what to write instead of an unknown flag: the closest ones, else where all of them are listed."""
    close = get_close_matches(name, [*rules, *own], 3)
    if close:
        return f"write {' or '.join(close)}."
    if rules:
        return f"use one of the rules {', '.join(rules)}, or a flag of the command; see --help."
    return "use a flag of the command (see --help): the service declares no rules."


def rules_given(reference: str, words: Sequence[str]) -> dict[str, Any]:
    """The rules among the words of a command for one service. Raises ConfigError for other words."""
    given = parted(words)
    if given.services:
        raise ConfigError(
            f"{given.services[0]}: expected only flags, found another word.", "name the service with --service."
        )
    return rules_by_service([reference], given.rules)[0]


def flags(rules: Any) -> Mapping[str, Flag]:
    """The rules of a service that can be set by flags."""
    if rules is None:
        return {}
    declared = field_types(type(rules))
    return {
        "--" + file_name(f.name).replace("_", "-"): Flag(f.name, declared[f.name], type(rules))
        for f in fields(rules)
        if is_scalar(declared[f.name])
    }


def _flag_of(made: Made, name: str) -> Flag | None:
    return flags(made.rules).get(name.replace(f"--{made.service.name}.", "--", 1))
