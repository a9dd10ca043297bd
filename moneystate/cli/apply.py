"""`moneystate apply`: records become rows of PostgreSQL, exactly once, and notifications follow them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from moneystate import log
from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.config import OnError, Settings
from moneystate.apply.config_file import read_settings
from moneystate.apply.diagnosis import diagnose
from moneystate.apply.handler_target import Handler
from moneystate.apply.process import Metrics, Process, applied, connected, ddl_of, difference_of
from moneystate.apply.rebuilding import Rebuilding
from moneystate.apply.state_target import State
from moneystate.apply.status import status_of
from moneystate.apply.worker import Choices
from moneystate.cli.command import Command, Group
from moneystate.cli.findings_view import end_with_errors, show_findings
from moneystate.cli.flag_groups import MetricsFlags
from moneystate.cli.option import PATH, Panel, expanded, option, variable
from moneystate.cli.options import Json, LogLevel, Quiet, error_choice
from moneystate.cli.tables import print_table
from moneystate.errors import ConfigError
from moneystate.kafka.client import check_reachable
from moneystate.replica.model import Version
from moneystate.stop_signals import stop_signals

_log = log.get_log(__name__)

INTERVAL_S = 1.0
COLUMNS = ["target", "topic", "partition", "position", "lag", "rate", "stopped"]
NUMBERS = ["partition", "position", "lag", "rate"]
DATABASE_S = 1.0  # between two looks at a database that does not answer at the start

File = Annotated[Path | None, typer.Option(
    "--config", help="TOML file with the targets (docs/apply.md).", metavar=PATH, envvar=variable("config"),
    rich_help_panel=Panel.service.value,
)]  # fmt: skip

app = typer.Typer(
    name="apply", cls=Group, invoke_without_command=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback()
@expanded
def apply(
    context: typer.Context,
    metrics_flags: MetricsFlags,
    config: File = None,
    create_tables: Annotated[bool, option("create-tables", "Create tables that are missing.", Panel.run)] = False,
    skip_lost: Annotated[
        bool, option("skip-lost", "Go on where the log no longer has the next records.", Panel.run)
    ] = False,
    on_error: Annotated[OnError, error_choice(OnError)] = OnError.fail,
    log_level: LogLevel = log.Level.info,
) -> None:
    """Apply records to PostgreSQL exactly once, then notify.

    Without a command it applies until SIGTERM, and ends with code 0. Several processes with one configuration share
    the partitions.
    """
    if context.invoked_subcommand is not None:
        return
    log.set_up(log_level)
    settings = _settings(config)
    log.add_fields(service=settings.application)
    check_reachable(settings.bootstrap_servers, dict(settings.kafka))
    process = Process(settings, Choices(on_error, skip_lost))
    process.ensure_topics()
    metrics_flags.expose(Metrics(process), process.live, process.ready)
    with stop_signals() as stopped:
        while not process.check(create_tables):
            if stopped.wait(DATABASE_S):
                return
        _log.info("started", targets=", ".join(target.name for target in settings.targets))
        process.run(stopped)
    _log.info("stopped", records=sum(worker.counts.records for worker in process.workers))


@app.command("ddl", cls=Command)
def ddl(
    config: File = None,
    diff: Annotated[bool, option("diff", "Print only what the database lacks.", Panel.output)] = False,
) -> None:
    """Print the statements that make the tables.

    They are those of the targets whose records have a schema, and those of positions, outbox and versions.
    """
    settings = _settings(config)
    for statement in difference_of(settings) if diff else ddl_of(settings):
        typer.echo(statement)


@app.command("rebuild", cls=Command)
def rebuild(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A target of rows or state.")],
    config: File = None,
    quiet: Quiet = False,
) -> None:
    """Make a target's tables equal to its topic, while they are read.

    Rows that differ are changed, and rows that are not in the topic are deleted, in one transaction at the end. Views,
    grants and columns that are not configured stay as they are. Processes that apply the target go on behind it.
    """
    settings = _settings(config)
    check_reachable(settings.bootstrap_servers, dict(settings.kafka))
    chosen = [one for one in settings.targets if one.name == target]
    if not chosen:
        names = ", ".join(one.name for one in settings.targets)
        raise ConfigError(f"{target}: expected a target of the file, found none of that name.", f"use one of {names}.")
    made = applied(chosen[0], settings)
    if isinstance(made, Handler):
        raise ConfigError(
            f"{target}: expected a target of rows or state, found a handler: only it knows its tables.",
            "empty them, and delete the target's rows of moneystate_positions.",
        )
    err = Console(stderr=True, highlight=False)
    with connected(settings) as connection, err.status("") as shown:
        progress = (lambda _: None) if quiet else (lambda count: shown.update(f"{count:,} records"))
        rebuilding = Rebuilding(settings, Bookkeeping(settings.schema, settings.application), connection, progress)
        if isinstance(made, State):
            rebuilding.state(made)
        else:
            rebuilding.rows(made)


@app.command("doctor", cls=Command)
def doctor(config: File = None, json_output: Json = False) -> None:
    """Find what is wrong with the database, the topics and the positions.

    It makes the checks of a start, changes nothing, and can run beside `moneystate apply`. It ends with code 1 if there
    are errors, else with 0.
    """
    findings = diagnose(_settings(config))
    if json_output:
        typer.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        show_findings(Console(highlight=False), findings)
    end_with_errors(findings)


@app.command("status", cls=Command)
def status(config: File = None, json_output: Json = False) -> None:
    """Show positions, lag and rate, the outbox, and what has stopped.

    It looks twice, a second apart, for the rates.
    """
    settings = _settings(config)
    check_reachable(settings.bootstrap_servers, dict(settings.kafka))
    with connected(settings) as connection:
        now = status_of(settings, connection, INTERVAL_S)
    if json_output:
        typer.echo(json.dumps(asdict(now)))
        return
    console = Console(highlight=False)
    rows = [
        [p.target, p.topic, str(p.partition), str(p.position), str(p.lag), f"{p.rate:.0f}/s", p.stopped or "-"]
        for p in now.partitions
    ]
    print_table(console, COLUMNS, rows, right=NUMBERS)
    for version in now.versions:
        console.print(f"{version['target']}: version {Version(version['epoch'], version['batch'])}")
    console.print(f"outbox: {now.outbox} rows; longest transaction: {now.oldest_snapshot_s:.0f} s")


def _settings(config: Path | None) -> Settings:
    if config is None:
        raise ConfigError("--config: expected a TOML file with the targets, found none.", "give --config FILE.")
    return read_settings(config)
