"""`moneystate reconciliation status`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.live import Live

from moneystate.cli.command import add, new_group
from moneystate.cli.flag_groups import KafkaFlags
from moneystate.cli.option import PATH, Panel, option
from moneystate.cli.options import BootstrapServers, Limit, TopicPrefix
from moneystate.kafka.client import check_reachable
from moneystate.stop_signals import stop_signals
from services.reconciliation.cli.board import Board
from services.reconciliation.cli.follow import Follower
from services.reconciliation.completeness import COMPLETENESS
from services.reconciliation.records import Completeness

CATCH_UP_S = 60.0


def status(
    bootstrap_servers: BootstrapServers,
    kafka_flags: KafkaFlags,
    topic_prefix: TopicPrefix = "",
    pair: Annotated[str, option("pair", "Only this pair.", Panel.question, "NAME", shown="all")] = "",
    limit: Limit = 12,
    once: Annotated[bool, option("once", "Show it once and end, also on a terminal.", Panel.output)] = False,
    svg: Annotated[Path | None, option("svg", "Also write an SVG, whenever it changes.", Panel.output, PATH)] = None,
) -> None:
    """Show how complete the intervals of each pair are.

    The command reads the topic reconciliation-completeness and shows the last intervals of each pair, --limit of them.
    On a terminal it follows the changes until SIGINT or SIGTERM, with as many intervals as there are lines for, and
    ends with code 0. Green is complete, yellow 99 % or more.
    """
    settings = kafka_flags.settings()
    check_reachable(bootstrap_servers, settings)
    follower = Follower(bootstrap_servers, settings, topic_prefix + COMPLETENESS, Completeness)
    board = Board(limit, pair)
    console = Console()
    try:
        follower.catch_up(board.take, CATCH_UP_S)
        _write(board, svg)
        if once or not console.is_terminal:
            console.print(board.view(console.width))
        else:
            _follow(board, follower, console, svg)
    finally:
        follower.close()


def _follow(board: Board, follower: Follower, console: Console, svg: Path | None) -> None:
    size = console.size
    with stop_signals() as stopped, Live(board.view(*size), console=console, auto_refresh=False) as live:
        while not stopped.is_set():
            is_new = follower.poll(board.take)
            if is_new or console.size != size:
                size = console.size
                live.update(board.view(*size), refresh=True)
            if is_new:
                _write(board, svg)


def _write(board: Board, svg: Path | None) -> None:
    if svg is not None:
        svg.write_text(board.svg(), encoding="utf-8")


app = new_group("reconciliation", "The reconciliation's completeness.")
add(app, status, "status")
