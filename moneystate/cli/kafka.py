"""`moneystate kafka`: the development broker, started and stopped by hand.

Exit codes: 0 done, or already so; 3 the broker could not be started or stopped, and from `status`: it does not run.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from moneystate.cli.command import add, new_group
from moneystate.cli.option import PATH, Flags, Panel, flag, option
from moneystate.cli.options import Json, port
from moneystate.devbroker import DevBroker
from moneystate.errors import SetupError

NOT_RUNNING_EXIT_CODE = 3

SCOPE = "KAFKA"  # prefix of the variables, because port and folder are common names


@dataclass(frozen=True)
class PlaceFlags(Flags):
    """Describes where a broker is."""

    port_number: Annotated[int, port(scope=SCOPE)] = 9092
    data_dir: Path | None = flag(
        None, "Folder of the broker's data, log and process record.", Panel.run, PATH, scope=SCOPE,
        shown="~/.local/state/moneystate/kafka-PORT",
    )  # fmt: skip

    def folder(self) -> Path:
        """A folder for each port, so that brokers on different ports do not share one."""
        if self.data_dir is not None:
            return self.data_dir.absolute()
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        return state / "moneystate" / f"kafka-{self.port_number}"


def start(
    place: PlaceFlags,
    heap: Annotated[
        str, option("heap", "Heap of the Java process, as for -Xmx.", Panel.run, "SIZE", scope=SCOPE)
    ] = "512m",
) -> None:
    """Start the broker in the background and print its bootstrap servers.

    The first start downloads Kafka (43 MB). Topics are not created automatically.
    """
    folder, port_number = place.folder(), place.port_number
    broker = DevBroker(folder, port_number, heap=heap, detach=True, progress=lambda line: typer.echo(line, err=True))
    if running := broker.running:
        if port_number and running.port != port_number:
            raise SetupError(
                f"--port {port_number}: expected no broker on {folder}, found one on port {running.port}.",
                do="stop it first, or give another --data-dir.",
            )
        typer.echo(f"already running (process {running.pid})", err=True)
    else:
        broker.start()
        typer.echo(f"started (process {broker.pid}, data and log in {folder})", err=True)
    typer.echo(broker.bootstrap_servers)


def stop(place: PlaceFlags) -> None:
    """Stop the broker and keep its data."""
    folder = place.folder()
    broker = DevBroker(folder)
    running = broker.running
    broker.stop()
    typer.echo(f"stopped (process {running.pid})" if running else f"not running on {folder}")


def status(place: PlaceFlags, as_json: Json = False) -> None:
    """Say whether the broker runs (exit code 0) or not (3)."""
    folder = place.folder()
    running = DevBroker(folder).running
    if as_json:
        report = {
            "running": running is not None,
            "pid": running.pid if running else None,
            "bootstrap_servers": running.address if running else None,
            "data_dir": str(folder),
        }
        typer.echo(json.dumps(report))
    elif running:
        typer.echo(f"running on {running.address} (process {running.pid}, data and log in {folder})")
    else:
        typer.echo(f"not running on {folder}")
    if running is None:
        raise typer.Exit(NOT_RUNNING_EXIT_CODE)


app = new_group("kafka", "The development broker: Apache Kafka on loopback.")
add(app, start, "start")
add(app, stop, "stop")
add(app, status, "status")
