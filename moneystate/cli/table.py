"""`moneystate table`: the rows of tables."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from moneystate import log
from moneystate.cli import services
from moneystate.cli.command import add, new_group
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, MetricsFlags, NewTopicFlags
from moneystate.cli.option import flagged
from moneystate.cli.options import AnyService, Json, Quiet
from moneystate.cli.table_options import (
    AllowDeletes,
    CreateTopic,
    Delimiter,
    DigestsFolder,
    DryRun,
    DsnFile,
    EveryDuration,
    Format,
    Key,
    NamesChoice,
    OnErrorChoice,
    SourceFile,
    Sql,
    Topic,
    Types,
    Watch,
    Zone,
)
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import ConfigError
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.offsets import topic_states
from moneystate.kafka.topics import Replication
from moneystate.monitoring import Pulse
from moneystate.records import iso_time
from moneystate.stop_signals import StopSignals, stop_signals
from moneystate.tables.columns import Declared, Names, parsed_types
from moneystate.tables.declared import table_of_service
from moneystate.tables.digests import Digests
from moneystate.tables.files import FileFormat, FileSource
from moneystate.tables.following import Follower
from moneystate.tables.loading import Choices, Ended, Load, Loader, OnError, Surroundings
from moneystate.tables.query import QuerySource
from moneystate.tables.records import RecordMaker
from moneystate.tables.staying import Every, Metrics, Staying, Watching, When
from moneystate.tables.topic import check_topic, create_topic
from moneystate.tables.writer import TableWriter

_log = log.get_log(__name__)

PARTITIONS = 4  # of a topic that is created
LEAST_EVERY_MS = 1_000
END_S = 10.0  # how long a load may take to end after a signal
STATE_FOLDER = Path("~/.local/state/moneystate/tables")

app = new_group("table", "Rows of tables, as services read them.")


@dataclass(frozen=True)
class Place:
    """The table's topic, and where it is."""

    servers: str
    settings: dict[str, str]  # of Kafka's clients
    topic: str  # without prefix
    prefix: str
    create: bool
    partitions: int
    replication: Replication

    @property
    def name(self) -> str:
        return self.prefix + self.topic

    def check(self) -> int:
        """The size that a record may have. Raises SetupError and BrokerError."""
        check_reachable(self.servers, self.settings)
        admin = admin_client(self.servers, self.settings)
        if self.create:
            create_topic(admin, self.name, self.partitions, self.replication)
        return check_topic(admin, self.name)


def _place(topic: Topic, cluster: ClusterFlags, new_topics: NewTopicFlags, create_topic: CreateTopic = False) -> Place:
    settings = cluster.settings()
    copies = new_topics.replication()
    return Place(
        cluster.bootstrap_servers,
        settings,
        topic,
        cluster.topic_prefix,
        create_topic,
        new_topics.topic_partitions,
        copies,
    )


@dataclass(frozen=True)
class Given:
    """Holds what the flags say about the source."""

    file: Path | None
    sql: str
    dsn_file: Path | None
    declared: Declared
    format: FileFormat | None
    delimiter: str
    reference: str  # of the service

    def source(self, declared: Declared, wait: Callable[[float], object]) -> FileSource | QuerySource:
        """Raises ConfigError."""
        if self.file is not None:
            return FileSource(self.file, self.format, declared, self.delimiter, wait)
        assert self.dsn_file is not None
        return QuerySource(self.sql, self.dsn_file, declared)


def _given(
    context: typer.Context,
    file: SourceFile = None,
    sql: Sql = "",
    dsn_file: DsnFile = None,
    key: Key = "",
    service: AnyService = "",
    types: Types = "",
    names: NamesChoice = Names.camel,
    zone: Zone = "",
    file_format: Format = None,
    delimiter: Delimiter = ",",
) -> Given:
    """Raises ConfigError."""
    if (file is None) == (not sql) or bool(sql) != (dsn_file is not None):
        raise ConfigError(
            "table load: expected a file, or --sql with --dsn-file.", "give either SOURCE or both of these flags."
        )
    if len(delimiter) != 1:
        raise ConfigError(f"--delimiter {delimiter}: expected one character.", "give for example ';'.")
    parts = tuple(part.strip() for part in key.split(",") if part.strip())
    declared = Declared(parts, names, parsed_types(types), None, _zone(zone))
    return Given(
        file, sql, dsn_file, declared, file_format, delimiter, services.chosen(context, service) if service else ""
    )


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(f"--zone {name}: expected a time zone.", "give for example UTC or Europe/Berlin.") from None


def _choices(
    on_error: OnErrorChoice = OnError.fail, allow_deletes: AllowDeletes = False, dry_run: DryRun = False
) -> Choices:
    return Choices(on_error, allow_deletes, dry_run)


def load(
    place: Place,
    given: Given,
    choices: Choices,
    metrics_flags: MetricsFlags,
    every: EveryDuration = "",
    watch: Watch = False,
    digests: DigestsFolder = None,
    quiet: Quiet = False,
    json_output: Json = False,
) -> None:
    """Make a table's topic equal to a file or a query.

    It writes the rows that differ and deletes those that are gone, in one transaction. A load that ends in the middle
    leaves no trace. With --every or --watch it stays until SIGTERM, and logs.
    """
    every_ms = parse_ms(every, "--every", LEAST_EVERY_MS) if every else 0
    _check_stay(bool(every), watch, choices, given)
    if not every and not watch:
        with WorkProgress(quiet) as progress, _loader(place, given, choices, digests, progress.show) as (loader, _):
            _say(loader.load(), place, choices, json_output)
        return
    with stop_signals() as stopped, _loader(place, given, choices, digests, _quiet, stopped) as (loader, source):
        when: When = Watching(source) if isinstance(source, FileSource) and watch else Every(every_ms / 1000)
        staying = Staying(loader, when, stopped, Pulse())
        metrics_flags.expose(Metrics(staying, place.name), staying.live, staying.ready)
        threading.Thread(target=_end_hard, args=(stopped,), name="last resort", daemon=True).start()
        staying.run()
        _log.info("stopped", loads=staying.good)


def _check_stay(every: bool, watch: bool, choices: Choices, given: Given) -> None:
    """Raises ConfigError for flags that exclude each other."""
    if watch and (every or given.file is None):
        raise ConfigError("--watch: expected a file, and no --every.", "with --sql, give --every.")
    if (watch or every) and choices.dry_run:
        raise ConfigError("--dry-run: expected neither --every nor --watch.", "leave them out.")


def _quiet(_phase: str, _done: int, _total: int) -> None:
    """A loader that stays logs."""


def _end_hard(stopped: StopSignals) -> None:
    """After a signal a query may run on. A hard exit leaves no trace of a load."""
    stopped.wait()
    time.sleep(END_S)
    _log.warning("the load does not end, so it is left")
    os._exit(0)


@contextmanager
def _loader(
    place: Place, given: Given, choices: Choices, folder: Path | None, progress: Callable[[str, int, int], object],
    stopped: StopSignals | None = None,
) -> Iterator[tuple[Loader, FileSource | QuerySource]]:  # fmt: skip
    """`stopped`: ends a load between chunks. Raises ConfigError, SetupError, InstanceError and BrokerError."""

    def check() -> None:
        if stopped is not None and stopped.is_set():
            raise Ended

    def wait(seconds: float) -> None:
        check()
        time.sleep(seconds)

    declared, check_row = given.declared, None
    if given.reference:
        table = table_of_service(given.reference, place.topic)
        declared, check_row = replace(declared, record=table.record, key=declared.key or table.key), table.check
    if not declared.key:
        raise ConfigError("--key: expected the columns of the key, found none.", "give --key COLUMN.")
    source = given.source(declared, wait)
    most_bytes = place.check()
    states = topic_states(admin_client(place.servers, place.settings), [place.name])
    home = folder or STATE_FOLDER.expanduser() / f"{place.name}-{states[place.name].topic_id}"
    follower = Follower(place.servers, place.settings, place.name, Digests(home / "digests"))
    writer = TableWriter(place.servers, place.settings, place.name)
    around = Surroundings(lambda: time.time_ns() // 1_000_000, check, progress)
    make = RecordMaker(source.key, most_bytes, check_row)
    loader = Loader(source, make, follower, writer, home / "pending", choices, around)
    try:
        yield loader, source
    finally:
        loader.close()


def _say(loaded: Load, place: Place, choices: Choices, json_output: bool) -> None:
    if json_output:
        typer.echo(json.dumps(_as_json(loaded, place, choices)))
        return
    for line in loaded.changes:
        typer.echo(line)
    c = loaded.counts
    if c.changed + c.deleted > len(loaded.changes) > 0:
        typer.echo(f"... and {c.changed + c.deleted - len(loaded.changes):,} more")
    left = f", {loaded.skipped:,} left out" if loaded.skipped else ""
    done = "would change" if choices.dry_run else "changed"
    typer.echo(f"{place.name}: {c.rows:,} rows, {c.changed:,} {done}, {c.deleted:,} deleted{left}")


def _as_json(loaded: Load, place: Place, choices: Choices) -> dict[str, Any]:
    c = loaded.counts
    shown = {"changes": loaded.changes} if choices.dry_run else {}
    return {
        "topic": place.name,
        "rows": c.rows,
        "changed": c.changed,
        "deleted": c.deleted,
        "skipped": loaded.skipped,
        "deletions_held_back": c.held_back,
        "source": loaded.source,
        "loaded_at": iso_time.from_ms(loaded.loaded_at_ms),
        **shown,
    }


add(app, flagged(flagged(flagged(load, "place", _place), "given", _given), "choices", _choices), "load", logs=True)
