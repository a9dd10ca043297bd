"""The command line: `moneystate COMMAND`. Exit codes: 0 done, 2 wrong use, 3 surroundings, 4 checkpoint, 5 the job
failed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from moneystate import log
from moneystate.cli import (
    apply,
    ask,
    checkpoint,
    core,
    dead_letters,
    kafka,
    registry,
    schemas,
    state,
    transactions,
    usage_errors,
)  # fmt: skip
from moneystate.cli.archive import archive
from moneystate.cli.bootstrap import bootstrap
from moneystate.cli.check import check
from moneystate.cli.command import add, new_group
from moneystate.cli.demo import demo
from moneystate.cli.doctor import doctor
from moneystate.cli.heartbeat import heartbeat
from moneystate.cli.plan import plan
from moneystate.cli.rescale import rescale
from moneystate.cli.run import run
from moneystate.cli.serve import serve
from moneystate.cli.verify_replay import verify_replay
from moneystate.errors import MoneystateError

INTERRUPTED = 130  # as a shell says of SIGINT
JOBS, QUERIES, STATE, TOOLS = "Jobs", "Queries", "State and history", "Development"

_log = log.get_log(__name__)
ABOUT = "Stateful event processing on Spark and Kafka whose output is a pure function of the logs."
VERSION = "Show the version, and whether the core is compiled, and exit."
app = new_group("moneystate", ABOUT)
add(app, run, "run", JOBS, rules_take=True, logs=True)
add(app, plan, "plan", JOBS, rules_take=True)
for name, command in registry.COMMANDS.items():
    add(app, command, name, JOBS, logs=name in registry.LOGGING)
add(app, doctor, "doctor", JOBS, rules_take=True)
add(app, heartbeat, "heartbeat", JOBS, logs=True)
app.add_typer(apply.app, rich_help_panel=JOBS)
app.add_typer(transactions.app, rich_help_panel=JOBS)
app.add_typer(dead_letters.app, rich_help_panel=JOBS)
add(app, serve, "serve", QUERIES, logs=True)
app.add_typer(state.app, rich_help_panel=QUERIES)
add(app, ask.command, "ask", QUERIES, numbers_take=True)
for service_app in registry.APPS:
    app.add_typer(service_app, rich_help_panel=QUERIES)
app.add_typer(checkpoint.app, rich_help_panel=STATE)
add(app, rescale, "rescale", STATE)
add(app, bootstrap, "bootstrap", STATE, rules_take=True)
add(app, archive, "archive", STATE)
add(app, verify_replay, "verify-replay", STATE)
add(app, demo, "demo", TOOLS)
add(app, check, "check", TOOLS)
app.add_typer(schemas.app, rich_help_panel=TOOLS)
app.add_typer(kafka.app, rich_help_panel=TOOLS)


Version = Annotated[bool, typer.Option("--version", help=VERSION, is_eager=True, callback=core.show_version)]


@app.callback(help=ABOUT)
def moneystate(version: Version = False) -> None:
    """Its flags stand before the command."""


def main() -> None:
    log.open_stderr()
    log.end()
    try:
        code = app(prog_name="moneystate", standalone_mode=False)
    except MoneystateError as e:
        _say_error(f"error: {e}", exit_code=e.exit_code, **e.about)
        sys.exit(e.exit_code)
    except (Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except TyperException as e:
        _say_error(usage_errors.told(e), exit_code=e.exit_code)
        sys.exit(e.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _say_error(line: str, **about: object) -> None:
    """The last line of a command that failed. For people it is the same at every level."""
    if log.is_json():
        _log.error(line.removeprefix("error: "), **about)
    else:
        log.write(line)


if __name__ == "__main__":
    main()
