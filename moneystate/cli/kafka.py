"""`moneystate kafka`: the development broker, started and stopped by hand.

Exit codes: 0 done, or already so; 3 the broker could not be started or stopped, and from `status`: it does not run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from moneystate.devbroker import DevBroker
from moneystate.errors import SetupError

NOT_RUNNING_EXIT_CODE = 3

app = typer.Typer(
    name="kafka", help="The development broker: Apache Kafka on loopback, in the background.", no_args_is_help=True
)

PortOption = Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.", envvar="MONEYSTATE_KAFKA_PORT")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of its data, log and process record.",
        envvar="MONEYSTATE_KAFKA_DIR",
        show_default="~/.local/state/moneystate/kafka-PORT",
    ),
]
DEFAULT_PORT = 9092


@app.command()
def start(
    port: PortOption = DEFAULT_PORT,
    data_dir: DataDirOption = None,
    heap: Annotated[str, typer.Option(help="Heap of the Java process, as for -Xmx.")] = "512m",
) -> None:
    """Start the broker in the background and print its bootstrap servers.

    The first start fetches Kafka (43 MB). Topics are not made by themselves.
    """
    folder = _folder(port, data_dir)
    broker = DevBroker(folder, port, heap=heap, detach=True, progress=lambda line: typer.echo(line, err=True))
    if running := broker.running:
        if running.port != port:
            raise SetupError(
                f"A broker runs on {folder} already, but on port {running.port} (asked for: {port}).",
                do="stop it first, or give another --data-dir.",
            )
        typer.echo(f"already running (process {running.pid})", err=True)
    else:
        broker.start()
        typer.echo(f"started (process {broker.pid}, data and log in {folder})", err=True)
    typer.echo(broker.bootstrap_servers)


@app.command()
def stop(port: PortOption = DEFAULT_PORT, data_dir: DataDirOption = None) -> None:
    """Stop the broker; its data stay."""
    folder = _folder(port, data_dir)
    broker = DevBroker(folder)
    running = broker.running
    broker.stop()
    typer.echo(f"stopped (process {running.pid})" if running else f"not running on {folder}")


@app.command()
def status(
    port: PortOption = DEFAULT_PORT,
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
) -> None:
    """Say whether the broker runs (exit code 0) or not (3)."""
    folder = _folder(port, data_dir)
    running = DevBroker(folder).running
    if as_json:
        report = {
            "running": running is not None,
            "pid": running.pid if running else None,
            "bootstrap_servers": running.bootstrap_servers if running else None,
            "data_dir": str(folder),
        }
        typer.echo(json.dumps(report))
    elif running:
        typer.echo(f"running on {running.bootstrap_servers} (process {running.pid}, data and log in {folder})")
    else:
        typer.echo(f"not running on {folder}")
    if running is None:
        raise typer.Exit(NOT_RUNNING_EXIT_CODE)


def _folder(port: int, data_dir: Path | None) -> Path:
    """A folder for each port, so that brokers on several ports do not meet."""
    if data_dir is not None:
        return data_dir.absolute()
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "moneystate" / f"kafka-{port}"
