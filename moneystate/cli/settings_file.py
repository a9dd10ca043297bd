"""One TOML file for all flags: a table for each command, keys as the flags, with - or _.

[run]
bootstrap-servers = "broker:9092"
bound = "20s"

[checkpoint]            # all commands of the group that have the flag
service = "enrichment"

[checkpoint.compare]
limit = 1000
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from moneystate.api.rules import NUMBER_BITS
from moneystate.cli.known_services import KNOWN
from moneystate.cli.option import PATH, Panel, variable
from moneystate.cli.service_config import read_file
from moneystate.errors import ConfigError

RUN, PLAN, DOCTOR = "run", "plan", "doctor"  # plan and doctor take the flags of run
# commands for any service: tables that belong to no command are services'
OF_SERVICES: Final = (
    RUN, PLAN, "archive", "ask", "bootstrap", "check", "checkpoint", "dead-letters", DOCTOR, "heartbeat", "schemas",
    "serve", "transactions", "verify-replay",
)  # fmt: skip
ARGUMENTS: Final = "moneystate.arguments"  # where a command keeps its arguments, in its context
NO_OPTIONS: Final = ("help", "config")  # only on the command line

Table = Mapping[str, Any]


def load(context: typer.Context, path: Path | None) -> Path | None:
    """Makes the file's values the defaults of the command's flags. Flags and variables override them. Raises
    ConfigError."""
    if path is None:
        return None
    content = read_file(path)
    words = words_of(context)
    root: Any = context.find_root().command
    _File(path).check_root(root, content, words[0] in OF_SERVICES)
    for given in [words, *([[RUN]] if words in ([PLAN], [DOCTOR]) else [])]:
        context.default_map = {**_values(root, content, given), **(context.default_map or {})}
    return path


def words_of(context: Any) -> list[str]:
    """The words of a command, without the program's name."""
    words: list[str] = []
    while context.parent is not None:
        words.insert(0, str(context.info_name))
        context = context.parent
    return words


ConfigFile = Annotated[Path | None, typer.Option(
    "--config", help="TOML file with a table of flags for each command, and one for each service.", metavar=PATH,
    envvar=variable("config"), rich_help_panel=Panel.service.value, callback=load, is_eager=True,
)]  # fmt: skip


def _values(root: Any, content: Table, words: list[str]) -> dict[str, Any]:
    """The values of the command's and its groups' tables, by parameter. The tables are already checked."""
    command = root
    given: dict[str, Any] = {}
    for word in words:
        command = command.commands[word]
        content = content.get(word, {})
        given |= {name: value for name, value in content.items() if not _is_command(command, name)}
    options = options_of(command)
    return {
        options[_flag(name)].name: _value(options[_flag(name)], value)
        for name, value in given.items()
        if _flag(name) in options
    }


def options_of(command: Any) -> dict[str, Any]:
    """The options that a file may have, by name."""
    named = {opt.lstrip("-"): p for p in command.params if p.param_type_name == "option" for opt in p.opts}
    return {name: parameter for name, parameter in named.items() if name not in NO_OPTIONS}


class _File:
    """Checks all tables. Raises ConfigError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check_root(self, root: Any, content: Table, services: bool) -> None:
        """`services`: the file may have tables of services with any name."""
        for name, table in content.items():
            if name in root.commands:
                self._check_table(root.commands[name], [name], table)
            elif not (services or name in KNOWN) or not isinstance(table, dict):
                self._refuse(
                    f"expected a table for each command, found {name!r}",
                    f"use one of {', '.join(sorted(root.commands))}",
                )

    def _check_table(self, command: Any, words: list[str], table: Any) -> None:
        if not isinstance(table, dict):
            self._refuse(f"expected a table [{'.'.join(words)}], found a value", "write its flags into a table")
        for name, value in table.items():
            if _is_command(command, name):
                self._check_table(command.commands[name], [*words, name], value)
            elif not (isinstance(command, TyperGroup) and words[0] in KNOWN):  # else the service's own
                self._check_option(command, words, name, value)

    def _check_option(self, command: Any, words: list[str], name: str, value: Any) -> None:
        where, flag = f"[{'.'.join(words)}] {name}", _flag(name)
        commands = command.commands.values() if isinstance(command, TyperGroup) else [command]
        options = [options_of(one)[flag] for one in commands if flag in options_of(one)]
        if not options:
            self._refuse(
                f"{where}: expected a flag of {' '.join(words)}, found none of that name",
                f"see moneystate {' '.join(words)} --help",
            )
        if _has_long_number(value):
            self._refuse(f"{where}: expected numbers of at most 64 bits, found a longer one", "correct the value")
        if isinstance(value, dict | list) and not options[0].multiple:
            self._refuse(f"{where}: expected one value, found several", f"see moneystate {' '.join(words)} --help")

    def _refuse(self, message: str, do: str) -> None:
        raise ConfigError(f"--config {self.path}: {message}.", f"{do}.")


def _has_long_number(value: Any) -> bool:
    """Python makes no text of a number with thousands of digits, which a file may have in hexadecimal."""
    if isinstance(value, dict | list):
        return any(map(_has_long_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and value.bit_length() >= NUMBER_BITS


def _is_command(command: Any, name: str) -> bool:
    return isinstance(command, TyperGroup) and name in command.commands


def _flag(key: str) -> str:
    return key.replace("_", "-")


def _value(parameter: Any, value: Any) -> Any:
    """The value for a parameter. A table means a flag that is given several times as NAME=VALUE."""
    if not parameter.multiple:
        return value
    if isinstance(value, dict):
        return [f"{name}={text}" for name, text in value.items()]
    return value if isinstance(value, list) else [value]
