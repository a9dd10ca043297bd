"""The command line: `moneystate COMMAND`. Exit codes: 0 done, 2 wrong use, 3 surroundings, 4 checkpoint, 5 the job
failed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from moneystate.cli import kafka, registry, schemas, settings_file, state
from moneystate.cli.archive import archive
from moneystate.cli.ask import command as ask
from moneystate.cli.bootstrap import bootstrap
from moneystate.cli.check import check
from moneystate.cli.demo import demo
from moneystate.cli.heartbeat import heartbeat
from moneystate.cli.plan import plan
from moneystate.cli.run import RULES_TAKE, run
from moneystate.cli.serve import serve
from moneystate.cli.verify_replay import verify_replay
from moneystate.errors import MoneystateError

INTERRUPTED = 130  # as a shell says of SIGINT

app = typer.Typer(
    name="moneystate",
    help="Stateful event processing on Spark and Kafka whose output is a pure function of the logs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(kafka.app, name="kafka")
app.add_typer(schemas.app, name="schemas")
app.add_typer(state.app, name="state")
for service_app in registry.APPS:
    app.add_typer(service_app)
for command in registry.COMMANDS:
    app.command()(command)
app.command(name="run", context_settings=RULES_TAKE)(run)
app.command(name="plan", context_settings=RULES_TAKE)(plan)
app.command()(check)
app.command()(heartbeat)
app.command()(demo)
app.command()(serve)
app.command(name="ask")(ask)
app.command(context_settings=RULES_TAKE)(bootstrap)
app.command()(archive)
app.command()(verify_replay)


@app.callback()
def settings(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with a table of flags for each command.", envvar="MONEYSTATE_CONFIG", is_eager=True
        ),
    ] = None,
) -> None:
    settings_file.load(context, config)


def main() -> None:
    try:
        code = app(prog_name="moneystate", standalone_mode=False)
    except MoneystateError as e:
        print(f"error: {e}", file=sys.stderr)
        sys.exit(e.exit_code)
    except (Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except TyperException as e:
        print(_told(e), file=sys.stderr)
        sys.exit(e.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _told(e: TyperException) -> str:
    """One line of what the command line got wrong; the help where a command was left out."""
    message = e.format_message().strip()
    if message.startswith("Usage:"):
        return message
    return f"error: {' '.join(message.split())} Do: see --help."


if __name__ == "__main__":
    main()
