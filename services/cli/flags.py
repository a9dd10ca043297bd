"""Flags as all commands declare them."""

from __future__ import annotations

import typer

from services.errors import ConfigError


def flag(env: str, help: str) -> typer.models.OptionInfo:
    """`[env: MONEYSTATE_...]` stands in the help."""
    option: typer.models.OptionInfo = typer.Option(help=help, envvar=f"MONEYSTATE_{env}")
    return option


def pairs(texts: list[str], name: str) -> dict[str, str]:
    """NAME=VALUE texts of the flag `name`. Raises ConfigError."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{name} {text}: expected NAME=VALUE.")
        found[key.strip()] = value.strip()
    return found
