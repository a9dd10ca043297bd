"""The tables of a configuration file that belong to services."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from moneystate.cli.known_services import KNOWN
from moneystate.errors import ConfigError

Tables = Mapping[str, Mapping[str, Any]]


def read_file(path: Path) -> dict[str, Any]:
    """Raises ConfigError."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as e:  # also for text that is not UTF-8, and numbers without end
        raise ConfigError(
            f"--config {path}: expected a TOML file, found {e}.", "check the path and the file."
        ) from None


def config_file(context: typer.Context) -> Path | None:
    """The file of the command's --config."""
    path: Path | None = context.params.get("config")
    return path


def service_tables(context: typer.Context) -> Tables:
    """The tables that are none of a command. A service's name can be that of a group of commands, too."""
    path = config_file(context)
    if path is None:
        return {}
    group: Any = context.find_root().command
    commands = group.commands
    tables = {name: table for name, table in read_file(path).items() if name not in commands or name in KNOWN}
    return {name: _without_commands(commands.get(name), table) for name, table in tables.items()}


def _without_commands(group: Any, table: Mapping[str, Any]) -> Mapping[str, Any]:
    names = getattr(group, "commands", {})
    return {name: value for name, value in table.items() if name not in names}


def check_used(context: typer.Context, tables: Tables, names: set[str]) -> None:
    """Raises ConfigError for a table that nobody reads."""
    path = config_file(context)
    unused = sorted(set(tables) - names)
    if unused:
        raise ConfigError(
            f"--config {path}: expected tables of commands and services, found [{unused[0]}].",
            f"services here are {', '.join(sorted(names))}.",
        )
