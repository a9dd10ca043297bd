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
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise ConfigError(
            f"--config {path}: expected a TOML file, found {e}.", "check the path and the file."
        ) from None


def config_file(context: typer.Context, given: Path | None) -> Path | None:
    """The file of a command's own --config, else that of `moneystate --config`."""
    if given is not None:
        return given
    root: Path | None = context.find_root().params.get("config")
    return root


def service_tables(context: typer.Context, path: Path | None) -> Tables:
    """The tables that are none of a command. Raises ConfigError."""
    if path is None:
        return {}
    group: Any = context.find_root().command
    commands = group.commands
    tables = {name: table for name, table in read_file(path).items() if name not in commands or name in KNOWN}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"--config {path}: expected a table, found {name} = {table!r}.")
    return tables


def check_used(path: Path | None, tables: Tables, names: set[str]) -> None:
    """Raises ConfigError for a table that nobody reads."""
    unused = sorted(set(tables) - names)
    if unused:
        raise ConfigError(
            f"--config {path}: expected tables of commands and services, found [{unused[0]}].",
            f"services here are {', '.join(sorted(names))}.",
        )
