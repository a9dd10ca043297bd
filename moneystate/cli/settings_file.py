"""One TOML file for all flags: a table for each command, keys as the flags, with - or _.

[enrich]
bootstrap-servers = "broker:9092"
bound = "20s"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import typer

from moneystate.errors import ConfigError


def load(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults of the commands' flags: a flag or its variable still overrides them."""
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise ConfigError(f"--config {path}: expected a TOML file, found {e}.") from None
    context.default_map = {name: _checked(context, path, name, table) for name, table in content.items()}
    return path


def _checked(context: typer.Context, path: Path, name: str, table: Any) -> dict[str, Any]:
    group: Any = context.command
    command = group.get_command(context, name)
    if command is None or not isinstance(table, dict):
        raise ConfigError(f"--config {path}: expected a table for each command, found {name!r}.")
    # a flag's own name is not always its parameter's: `--json` is `json_output`
    names = {opt.lstrip("-"): p.name for p in command.params for opt in p.opts}
    values = {key.replace("_", "-"): value for key, value in table.items()}
    for key in values:
        if key not in names:
            raise ConfigError(f"--config {path}: there is no flag --{key} of {name}.")
    return {names[key]: _pairs(value) for key, value in values.items()}


def _pairs(value: Any) -> Any:
    """A table stands for a flag that is given several times as NAME=VALUE."""
    if isinstance(value, dict):
        return [f"{k}={v}" for k, v in value.items()]
    return value
