"""`moneystate transactions`: an application's transactions, and how to end those that nobody will finish."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.console import Console

from moneystate.cli.command import add, new_group
from moneystate.cli.flag_groups import ClusterFlags
from moneystate.cli.option import Panel, flagged, option
from moneystate.cli.options import ApplicationId, GivenService, Json
from moneystate.cli.service_broker import reach
from moneystate.cli.tables import Cell, print_table
from moneystate.kafka.transaction_log import Transaction
from moneystate.kafka.transactions import Application

COLUMNS = ["transactional id", "producer/epoch", "state", "coordinator", "since", "age", "timeout", "partitions"]

app = new_group("transactions", "Kafka transactions of an application.")


def _application(
    context: typer.Context, cluster: ClusterFlags, service: GivenService, application_id: ApplicationId = ""
) -> Application:
    job, settings = reach(context, cluster, service)
    chosen = application_id or job.application_id(cluster.topic_prefix)
    return Application(cluster.bootstrap_servers, settings, chosen, cluster.topic_prefix + job.commits)


def _list(application: Application, json_output: Json = False) -> None:
    """Show an application's transactions.

    Readers with read_committed wait for an open one. Those of an application that runs end within seconds. The broker
    aborts one that is older than its timeout.
    """
    _show(application.transactions(), json_output)


def _abort(
    application: Application,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Transactional ids of the application; all open ones by default."),
    ] = None,
    fence_running: Annotated[
        bool,
        option("fence-running", "Abort even if the application seems to run. That run ends with code 4.", Panel.run),
    ] = False,
    json_output: Json = False,
) -> None:
    """Abort an application's open transactions.

    This is for an application that does not come back, because its next start aborts them, too. It loses nothing: the
    next start repeats the batch. Transactions of another application, or of one that runs, are refused.
    """
    _show(application.abort(ids or [], fence_running), json_output, "aborted")


def _show(listed: list[Transaction], json_output: bool, state: str = "") -> None:
    """`state`: what has become of them."""
    if json_output:
        typer.echo(json.dumps([_as_json(one, state) for one in listed]))
    elif not listed:
        typer.echo("no open transactions" if state else "no transactions")
    else:
        print_table(Console(highlight=False), COLUMNS, [_row(one, state) for one in listed])


def _as_json(one: Transaction, state: str) -> dict[str, Any]:
    return {
        "transactional_id": one.transactional_id,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "state": state or one.state,
        "open": one.is_open and not state,
        "coordinator": one.coordinator,
        "since": _since(one),
        "age_ms": _age_ms(one),
        "timeout_ms": one.timeout_ms,
        "partitions": [f"{topic}/{partition}" for topic, partition in one.partitions],
    }


def _row(one: Transaction, state: str) -> list[Cell]:
    age = _age_ms(one)
    return [
        one.transactional_id,
        f"{one.producer_id}/{one.producer_epoch}",
        state or one.state,
        one.coordinator,
        _since(one) or "-",
        "-" if age is None else f"{age / 1000:.0f}s",
        f"{one.timeout_ms / 1000:.0f}s",
        " ".join(
            f"{topic}/{','.join(str(partition) for _, partition in mine)}"
            for topic, mine in groupby(sorted(one.partitions), lambda place: place[0])
        )
        or "-",
    ]


def _since(one: Transaction) -> str | None:
    if one.since_ms is None:
        return None
    return datetime.fromtimestamp(one.since_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _age_ms(one: Transaction) -> int | None:
    """Measures the age by this machine's clock; the start is by the broker's."""
    return None if one.since_ms is None else max(0, time.time_ns() // 1_000_000 - one.since_ms)


add(app, flagged(_list, "application", _application), "list")
add(app, flagged(_abort, "application", _application), "abort")
