"""`moneystate checkpoint export, fingerprint, compare, show`: state of a stopped job, of a savepoint, or of a
server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console

from moneystate.cli import checkpoint_served, checkpoint_view, facts_view
from moneystate.cli.connection import Connect
from moneystate.cli.flag_groups import KafkaFlags, StoreFlags
from moneystate.cli.option import Flags
from moneystate.cli.options import (
    AtTime,
    AtVersion,
    BootstrapServers,
    CheckpointFolder,
    Json,
    Limit,
    Quiet,
    SameKeyGroups,
    ServiceOfState,
)
from moneystate.cli.options import Savepoint as SavepointFolder
from moneystate.cli.state_owner import check_same, service_of
from moneystate.cli.tables import print_fields
from moneystate.cli.versions import parse_at
from moneystate.cli.work_progress import PHASE, WorkProgress, counting
from moneystate.errors import ConfigError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.storage.savepoints import check_out, fetched, new_savepoint
from moneystate.kafka.client import check_reachable
from moneystate.ports.service import ServiceSpec
from moneystate.records import exact_json
from moneystate.replica.model import Version
from moneystate.savepoint.compare import compare
from moneystate.savepoint.format import Savepoint
from moneystate.savepoint.manifest import ChangelogPosition
from moneystate.savepoint.rescale import rescale
from state_tools.changelog_position import changelog_position
from state_tools.export import check_can_go_on, export, open_checkpoint
from state_tools.inspection import inspect_state
from state_tools.offline import is_savepoint, open_state, session_for

Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", help="A savepoint, a stopped job's checkpoint, or HOST:PORT of `moneystate serve`."
    ),
]


@dataclass(frozen=True)
class StateFlags(Flags):
    """The flags of commands that take a state from a folder or from a server."""

    store_flags: StoreFlags
    at_version: AtVersion = ""
    at_time: AtTime = ""
    service: ServiceOfState = ""
    json_output: Json = False
    quiet: Quiet = False


def export_state(
    checkpoint: CheckpointFolder,
    out: SavepointFolder,
    kafka_flags: KafkaFlags,
    store_flags: StoreFlags,
    key_groups: SameKeyGroups = None,
    service: ServiceOfState = "",
    bootstrap_servers: BootstrapServers = "",
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a stopped job's state as a savepoint.

    A new checkpoint can begin with it (--initial-state). With --bootstrap-servers, a replica can, too (serve
    --from-snapshot). --checkpoint can also be a savepoint: with --key-groups, the command writes it with another number
    of key groups.
    """
    store_flags.configure()
    check_out(out)
    spec = service_of(checkpoint, service)
    state, kafka = spec.state, kafka_flags.settings()
    with new_savepoint(out) as path:
        if is_savepoint(checkpoint):
            whole = Savepoint(fetched(checkpoint, "--checkpoint"))
            groups = key_groups or whole.manifest.key_groups
            with WorkProgress(quiet) as progress:
                rescale(state, whole, path, groups, lambda done: progress.show(PHASE, done, groups))
        else:
            source = open_checkpoint(checkpoint)
            check_can_go_on(source)
            groups = key_groups or source.settings()["key_groups"]
            position = _changelog(spec, source, groups, bootstrap_servers, kafka)
            with counting(path, groups, quiet), session_for(source) as session:
                export(session, state, source, path, groups, position)
        savepoint = Savepoint(path)
    _tell(savepoint, out, json_output)


def _changelog(
    service: ServiceSpec, source: Checkpoint, key_groups: int, servers: str, kafka: dict[str, str]
) -> ChangelogPosition | None:
    """Returns where a replica continues; None: it is not asked for. Raises ConfigError, SavepointError."""
    if not servers:
        return None
    settings, last = source.settings(), source.last_committed()
    if key_groups != settings["key_groups"]:
        raise ConfigError(
            f"--key-groups {key_groups}: expected {settings['key_groups']} as in the changelog, for replicas.",
            "leave out --key-groups or --bootstrap-servers.",
        )
    check_reachable(servers, kafka)
    topic = settings["topic_prefix"] + service.job(source.latest_rules()).changelog
    return changelog_position(servers, kafka, topic, key_groups, Version(str(source.epoch()), last))


def fingerprint(place: Place, connect: Connect, flags: StateFlags) -> None:
    """Print a state's fingerprint.

    Equal states have equal fingerprints, however they are stored. For a server the command prints the first part, the
    keys, and version and watermark on stderr.
    """
    read_at = parse_at(flags.at_version, flags.at_time)
    if checkpoint_served.is_server(place):
        with WorkProgress(flags.quiet) as progress:
            served = checkpoint_served.fingerprint(connect, place, read_at, flags.service, progress)
        checkpoint_served.tell_fingerprint(served, flags.json_output)
        return
    checkpoint_served.check_no_moment(read_at)
    flags.store_flags.configure()
    with open_state(service_of(place, flags.service).state, place) as savepoint:
        m = savepoint.manifest
        if flags.json_output:
            keys, _, buffer = m.fingerprint.partition("-")
            watermark = facts_view.time_ms(m.watermark)
            typer.echo(json.dumps({"fingerprint": m.fingerprint, "keys": keys, "buffer": buffer, **watermark}))
        else:
            typer.echo(m.fingerprint)


def compare_states(one: Place, other: Place, connect: Connect, flags: StateFlags, limit: Limit = 20) -> None:
    """Show the differences of two states.

    If one of them is a server, only the keys are compared. The command ends with code 0 if there is no difference,
    otherwise with 1.
    """
    read_at = parse_at(flags.at_version, flags.at_time)
    if any([checkpoint_served.is_server(one), checkpoint_served.is_server(other)]):
        with WorkProgress(flags.quiet) as progress:
            sides = checkpoint_served.compare(connect, (one, other), read_at, flags.service, limit, progress)
        checkpoint_served.tell_comparison(sides, flags.json_output)
        raise typer.Exit(1 if sides.result.total else 0)
    checkpoint_served.check_no_moment(read_at)
    flags.store_flags.configure()
    owners = service_of(one, flags.service), service_of(other, flags.service)
    check_same((one, other), owners)
    state = owners[0].state
    with open_state(state, one) as a, open_state(state, other) as b:
        comparison = compare(state, a, b, limit)
    facts_view.tell_comparison(state, comparison, (one, other), flags.json_output, "state")
    raise typer.Exit(1 if comparison.total else 0)


def show(
    checkpoint: CheckpointFolder,
    store_flags: StoreFlags,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The key, which may be empty; without, the state as a whole.")
    ] = None,
    service: ServiceOfState = "",
    json_output: Json = False,
) -> None:
    """Show the state of a key, or how far the job is.

    The state of a key is shown with buffered events and timers. --checkpoint can also be a savepoint.
    """
    store_flags.configure()
    state = service_of(checkpoint, service).state
    seen = inspect_state(state, checkpoint, None if key is None else key.encode())
    if seen is None:
        raise ConfigError(f"{key or chr(34) * 2}: expected a key that the state knows, found none.", "check the key.")
    if json_output:
        typer.echo(exact_json.dumps(seen, ascii=True))
    else:
        if key is not None:
            checkpoint_view.print_key(seen)
        else:
            checkpoint_view.print_job(seen)


def _tell(savepoint: Savepoint, out: str, json_output: bool) -> None:
    m = savepoint.manifest
    entries, size = sum(f.entries for f in m.state), sum(f.bytes for f in m.state)
    if json_output:
        about = {"out": out, "entries": entries, "bytes": size, "key_groups": m.key_groups}
        typer.echo(json.dumps({**about, "fingerprint": m.fingerprint, **facts_view.time_ms(m.watermark)}))
        return
    values = {
        "savepoint": out,
        "key groups": str(m.key_groups),
        "entries": f"{entries:,} ({size / 1e6:,.1f} MB)",
        "watermark": facts_view.time_text(m.watermark),
        "fingerprint": m.fingerprint,
    }
    print_fields(Console(highlight=False), values)
