"""One TOML file for all flags: a table for each command, keys as the flags, with - or _.

[enrich]
bootstrap-servers = "broker:9092"
bound = "20s"
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from moneystate.cli.known_services import KNOWN
from moneystate.cli.service_config import read_file
from moneystate.errors import ConfigError

RUN, PLAN = "run", "plan"  # plan takes the flags of run
# commands of services of any name: tables that are none of a command are theirs
OF_SERVICES: Final = (
    RUN, PLAN, "archive", "ask", "bootstrap", "check", "heartbeat", "schemas", "serve", "state", "verify-replay",
)  # fmt: skip


def load(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults of the commands' flags: a flag or its variable still overrides them."""
    if path is None:
        return None
    content = read_file(path)
    group: Any = context.command
    if context.invoked_subcommand in OF_SERVICES:
        content = {name: table for name, table in content.items() if name in group.commands}
    content = {name: table for name, table in content.items() if name not in KNOWN}
    context.default_map = {name: _checked(group, path, name, table) for name, table in content.items()}
    if RUN in context.default_map:
        context.default_map.setdefault(PLAN, context.default_map[RUN])
    return path


def load_for_command(context: typer.Context, parameter: typer.CallbackParam, path: Path | None) -> Path | None:
    """The same for a command's own --config: the table of its name."""
    if path is None:
        return None
    group: Any = context.find_root().command
    name = RUN if context.info_name == PLAN else str(context.info_name)
    table = read_file(path).get(name, {})
    context.default_map = {**(context.default_map or {}), **_checked(group, path, name, table)}
    return path


def _checked(group: Any, path: Path, name: str, table: Any) -> dict[str, Any]:
    command = group.commands.get(name)
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


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with a table for each service, and one of the command's name for its flags.",
        callback=load_for_command,
        is_eager=True,
    ),
]
