"""Commands and groups of commands. Their help is in panels and never cut off, and each command takes --config."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from moneystate import log
from moneystate.cli import settings_file, variables
from moneystate.cli.option import Panel, expanded
from moneystate.cli.options import LogLevel
from moneystate.cli.settings_file import ConfigFile

ARGUMENTS, COMMANDS, HELP = "Arguments", "Commands", "Help"
OPTION_PANELS = [*(panel.value for panel in Panel), HELP]
WHOLE = 10_000  # characters; summaries are wrapped, never cut off

Row = tuple[str, str]

_log = log.get_log(__name__)


class Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for line in variables.warnings(ctx.find_root().command, self, os.environ):
            self._warn(line)
        ctx.meta[settings_file.ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def _warn(self, line: str) -> None:
        typer.echo(line, err=True)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments = _rows(self, ctx, "argument", ARGUMENTS)
        _write([(panel, (name.split(" ")[0], text)) for panel, (name, text) in arguments], [ARGUMENTS], formatter)
        _write(_rows(self, ctx, "option", HELP), OPTION_PANELS, formatter)


class LoggingCommand(Command):
    """It logs from the start, so that an error in its flags is a line of the log, too. Warnings about flags and
    variables wait until the level is known."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.warnings: list[str] = []

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            log.set_up()
        try:
            return super().parse_args(ctx, args)
        except Exception:
            self._say_warnings()
            raise

    def invoke(self, ctx: Any) -> Any:
        log.set_up(ctx.params["log_level"])
        self._say_warnings()
        return super().invoke(ctx)

    def _warn(self, line: str) -> None:
        self.warnings.append(line.removeprefix("warning: "))

    def _say_warnings(self) -> None:
        for line in self.warnings:
            _log.warning(line)
        self.warnings.clear()


class Group(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """Does not look at the commands, which may have to be imported."""
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        summaries = [
            (command.rich_help_panel or COMMANDS, (name, command.get_short_help_str(WHOLE)))
            for name, command in self.commands.items()
            if isinstance(command, Command | Group)
        ]
        _write(summaries, list(dict.fromkeys(panel for panel, _ in summaries)), formatter)
        _write(_rows(self, ctx, "option", HELP), OPTION_PANELS, formatter)


def new_group(name: str, help: str, kind: type[Group] = Group) -> typer.Typer:
    return typer.Typer(
        name=name, help=help, cls=kind, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )


def add(
    group: typer.Typer,
    command: Callable[..., Any],
    name: str,
    panel: str | None = None,
    any_words: bool = False,
    logs: bool = False,
) -> None:
    """Adds a command. `panel`: its panel in the group's help. `any_words`: its arguments may begin with a hyphen, as
    flags of a service's rules and negative numbers do. `logs`: runs for long, and logs to stderr."""
    settings = {"ignore_unknown_options": any_words}
    kind = LoggingCommand if logs else Command
    group.command(name, cls=kind, rich_help_panel=panel, context_settings=settings)(_configured(command, logs))


def _configured(command: Callable[..., Any], logs: bool) -> Callable[..., Any]:
    """The command with the flag --config, whose file has the defaults of the other flags, and --log-level if it
    logs."""
    command = expanded(command)

    @functools.wraps(command)
    def run(config: Any, log_level: Any = None, **given: Any) -> Any:
        return command(**given)

    given = inspect.signature(command, eval_str=True).parameters.values()
    level = [_flag("log_level", LogLevel, log.Level.info)] if logs else []
    config = _flag("config", ConfigFile, None)
    shown = [*(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in given), *level, config]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def _flag(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _rows(command: Any, ctx: Any, kind: str, other: str) -> list[tuple[str, Row]]:
    """The rows of the help with their panels. `other`: the panel of rows without one."""
    parameters = [parameter for parameter in command.get_params(ctx) if parameter.param_type_name == kind]
    records = [(parameter.rich_help_panel or other, parameter.get_help_record(ctx)) for parameter in parameters]
    return [(panel, record) for panel, record in records if record is not None]


def _write(rows: Iterable[tuple[str, Row]], order: Iterable[str], formatter: Any) -> None:
    panels: Mapping[str, list[Row]] = {panel: [] for panel in order}
    for panel, row in rows:
        panels[panel].append(row)
    for panel, its in panels.items():
        if its:
            with formatter.section(panel):
                formatter.write_dl(its)
