"""`moneystate reconciliation status`."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from moneystate.cli.options import KafkaConfig, KafkaConfigFile, flag, kafka_settings
from moneystate.kafka.client import check_reachable
from services.reconciliation.cli.board import Board
from services.reconciliation.cli.follow import Follower
from services.reconciliation.completeness import COMPLETENESS
from services.reconciliation.records import Completeness

CATCH_UP_S = 60.0

app = typer.Typer(
    name="reconciliation", help="The reconciliation: is every event that was announced really there?",
    no_args_is_help=True,
)  # fmt: skip


@app.callback()
def reconciliation() -> None:
    """The reconciliation: is every event that was announced really there?"""


@app.command()
def status(
    bootstrap_servers: Annotated[str, flag("BOOTSTRAP_SERVERS", "Kafka brokers, HOST:PORT,...")],
    topic_prefix: Annotated[str, flag("TOPIC_PREFIX", "Goes before the topic's name.")] = "",
    pair: Annotated[str, typer.Option(help="Only this pair.", show_default="all")] = "",
    intervals: Annotated[int, typer.Option(min=1, help="How many intervals of each pair, the last ones.")] = 12,
    once: Annotated[
        bool, typer.Option("--once", help="Show it once and end; so it does where this is no terminal.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Also write the same as SVG, whenever it changes.")] = None,
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
) -> None:
    """Show how complete the intervals of each pair are, and go on as they change.

    Reads the topic reconciliation-completeness. Green is complete, yellow 99 % or more. Ends with code 0 after SIGINT
    or SIGTERM.
    """
    settings = kafka_settings(kafka_config_file, kafka_config)
    check_reachable(bootstrap_servers, settings)
    follower = Follower(bootstrap_servers, settings, topic_prefix + COMPLETENESS, Completeness)
    board = Board(intervals, pair)
    console = Console()
    try:
        follower.catch_up(board.take, CATCH_UP_S)
        _write(board, svg)
        if once or not console.is_terminal:
            console.print(board.table(console.width))
        else:
            _follow(board, follower, console, svg)
    finally:
        follower.close()


def _follow(board: Board, follower: Follower, console: Console, svg: Path | None) -> None:
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    with Live(board.table(console.width), console=console, auto_refresh=False) as live:
        while not over.is_set():
            if follower.poll(board.take):
                live.update(board.table(console.width), refresh=True)
                _write(board, svg)


def _write(board: Board, svg: Path | None) -> None:
    if svg is not None:
        svg.write_text(board.svg(), encoding="utf-8")
