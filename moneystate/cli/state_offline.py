"""`moneystate state export, fingerprint, compare, show`: state that no job is running on, or that a server has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from moneystate.cli import facts_view, registry, state_served, state_view
from moneystate.cli.connection import Connect, connecting
from moneystate.cli.durations import parse_ms
from moneystate.cli.options import DEDUP_TTL, PlainService, flag
from moneystate.cli.state_query import AtTime, AtVersion, parse_at
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import ConfigError
from moneystate.ports.state import StateModel
from moneystate.savepoint.compare import compare
from moneystate.savepoint.format import Savepoint, check_free, partial
from moneystate.savepoint.rescale import rescale
from moneystate.spark.local_path import local_folder
from state_tools.export import check_can_go_on, export, open_checkpoint
from state_tools.inspection import inspect_state
from state_tools.offline import is_savepoint, offline_session, opened

POLL_S = 0.3
PHASE = "key groups"

Place = Annotated[
    str, typer.Argument(help="A savepoint, the checkpoint of a stopped job, or HOST:PORT of `moneystate serve`.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
DedupTtl = Annotated[
    str, flag("DEDUP_TTL", "The job's, where only servers are named: a savepoint and a checkpoint have their own.")
]


def register(app: typer.Typer) -> None:
    app.command("export")(export_state)
    app.command("fingerprint")(connecting(fingerprint))
    app.command("compare")(connecting(compare_states))
    app.command("show")(show)


def export_state(
    checkpoint: Annotated[
        str, typer.Option(help="Checkpoint of a stopped job, or a savepoint.", envvar="MONEYSTATE_CHECKPOINT")
    ],
    out: Annotated[Path, typer.Option(help="Folder to make.", envvar="MONEYSTATE_OUT")],
    key_groups: Annotated[
        int, typer.Option(help="Key groups of the savepoint; 0: as they are.", envvar="MONEYSTATE_KEY_GROUPS")
    ] = 0,
    service: PlainService = "",
    json_output: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a stopped job's state as a savepoint, which a new checkpoint can begin with (enrich --initial-state)."""
    if key_groups < 0:
        raise ConfigError(f"--key-groups {key_groups}: expected at least 1.")
    out = local_folder(str(out), "--out")
    check_free(out)
    state = registry.service_of(checkpoint, service).state
    if key_groups or is_savepoint(checkpoint):
        with opened(state, checkpoint, can_go_on=True) as whole:
            groups = key_groups or whole.manifest.key_groups
            with WorkProgress(quiet) as progress:
                rescale(state, whole, out, groups, lambda done: progress.show(PHASE, done, groups))
    else:
        source = open_checkpoint(checkpoint)
        check_can_go_on(source)
        with _counting(out, source.settings()["key_groups"], quiet), offline_session() as session:
            export(session, state, source, out)
    _tell(Savepoint(out), json_output)


def fingerprint(
    place: Place,
    connect: Connect,
    at_version: AtVersion = "",
    at_time: AtTime = "",
    dedup_ttl: DedupTtl = DEDUP_TTL,
    service: PlainService = "",
    json_output: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the fingerprint of a state: the same for the same state, however it is stored.

    Of a server its first part, that of the users, with version and watermark on stderr.
    """
    read_at = parse_at(at_version, at_time)
    if state_served.is_server(place):
        ttl_ms = parse_ms(dedup_ttl, "--dedup-ttl", 1)
        with WorkProgress(quiet) as progress:
            served = state_served.fingerprint(connect, place, read_at, ttl_ms, progress)
        state_served.tell_fingerprint(served, json_output)
        return
    state_served.check_no_moment(read_at)
    with opened(registry.service_of(place, service).state, place) as savepoint:
        m = savepoint.manifest
        if json_output:
            users, _, buffer = m.fingerprint.partition("-")
            watermark = facts_view.time_ms(m.watermark)
            typer.echo(json.dumps({"fingerprint": m.fingerprint, "users": users, "buffer": buffer, **watermark}))
        else:
            typer.echo(m.fingerprint)


def compare_states(
    one: Place,
    other: Place,
    connect: Connect,
    most: Annotated[int, typer.Option(help="How many differences to show.")] = 20,
    at_version: AtVersion = "",
    at_time: AtTime = "",
    dedup_ttl: DedupTtl = DEDUP_TTL,
    service: PlainService = "",
    json_output: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the first differences of two states. Ends with code 0 where there are none, else 1.

    With a server as one of them, what is compared is what is known of users.
    """
    read_at = parse_at(at_version, at_time)
    if any([state_served.is_server(one), state_served.is_server(other)]):
        ttl_ms = parse_ms(dedup_ttl, "--dedup-ttl", 1)
        with WorkProgress(quiet) as progress:
            sides = state_served.compare(connect, (one, other), read_at, ttl_ms, most, progress)
        state_served.tell_comparison(sides, json_output)
        raise typer.Exit(1 if sides.result.total else 0)
    state_served.check_no_moment(read_at)
    state = _state_of_both(one, other, service)
    with opened(state, one) as a, opened(state, other) as b:
        comparison = compare(state, a, b, most)
    if json_output:
        typer.echo(
            json.dumps({"differences": comparison.total, "first": [facts_view.as_json(d) for d in comparison.first]})
        )
    else:
        console = Console(soft_wrap=True)
        if comparison.first:
            console.print(facts_view.differences(comparison.first, one, other))
        console.print(
            "the same state" if not comparison.total else f"{comparison.total:,} differences", highlight=False
        )
    raise typer.Exit(1 if comparison.total else 0)


def show(
    checkpoint: Annotated[
        str, typer.Option(help="Checkpoint of a stopped job, or a savepoint.", envvar="MONEYSTATE_CHECKPOINT")
    ],
    user: Annotated[str, typer.Argument(help="User id; without, the state as a whole.")] = "",
    service: PlainService = "",
    json_output: AsJson = False,
) -> None:
    """Show a user's state with buffered events and timers, or how far the whole job is, without running it."""
    state = registry.service_of(checkpoint, service).state
    seen = inspect_state(state, checkpoint, user.encode())
    if seen is None:
        raise ConfigError(f"{user}: expected a user that the state knows, it does not.", "check the id.")
    if json_output:
        typer.echo(json.dumps(seen))
    else:
        console = Console(soft_wrap=True)
        for part in state_view.user_tables(seen, state.titles) if user else state_view.job_tables(seen):
            console.print(part)


def _state_of_both(one: str, other: str, service: str) -> StateModel:
    """Raises ConfigError for states of two services."""
    services = [registry.service_of(folder, service) for folder in (one, other)]
    if services[0].name != services[1].name:
        raise ConfigError(f"{other}: expected a state of {services[0].name} as {one}, found one of {services[1].name}.")
    return services[0].state


def _tell(savepoint: Savepoint, json_output: bool) -> None:
    m = savepoint.manifest
    entries, size = sum(f.entries for f in m.state), sum(f.bytes for f in m.state)
    if json_output:
        about = {"out": str(savepoint.folder), "entries": entries, "bytes": size, "key_groups": m.key_groups}
        typer.echo(json.dumps({**about, "fingerprint": m.fingerprint, **facts_view.time_ms(m.watermark)}))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("savepoint", str(savepoint.folder))
    table.add_row("key groups", str(m.key_groups))
    table.add_row("entries", f"{entries:,} ({size / 1e6:,.1f} MB)")
    table.add_row("watermark", facts_view.time_text(m.watermark))
    table.add_row("fingerprint", m.fingerprint)
    Console(soft_wrap=True).print(table)


@contextmanager
def _counting(out: Path, total: int, quiet: bool) -> Iterator[None]:
    """Shows how many key groups are written, by their files: Spark's tasks write them."""
    over = threading.Event()
    with WorkProgress(quiet) as progress:

        def count() -> None:
            while not over.wait(POLL_S):
                progress.show(PHASE, len(list((partial(out) / "state").glob("*.avro"))), total)

        counter = threading.Thread(target=count, daemon=True)
        counter.start()
        try:
            yield
            progress.show(PHASE, total, total)
        finally:
            over.set()
            counter.join()
