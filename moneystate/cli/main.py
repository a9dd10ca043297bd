"""The command line: `moneystate COMMAND`. Exit codes: 0 done, 2 wrong use, 3 surroundings, 4 checkpoint, 5 the job
failed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import Abort, TyperException

from moneystate import log
from moneystate.cli import core, usage_errors
from moneystate.cli.command import Group, new_group
from moneystate.cli.tree import Commands
from moneystate.errors import MoneystateError

INTERRUPTED = 130  # as a shell says of SIGINT

_log = log.get_log(__name__)
ABOUT = "Stateful event processing on Spark and Kafka whose output is a pure function of the logs."
VERSION = "Show the version, and whether the core is compiled, and exit."


class Root(Group):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": Commands()})


app = new_group("moneystate", ABOUT, Root)
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
    # spark-submit runs this file, and its folder has a module with the name of a package.
    sys.path[:] = [folder for folder in sys.path if Path(folder) != Path(__file__).parent]
    main()
