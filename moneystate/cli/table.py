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
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from moneystate import log
from moneystate.cli import services
from moneystate.cli.command import add, new_group
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, MetricsFlags, NewTopicFlags
from moneystate.cli.option import DURATION, PATH, Flags, Panel, filled, flag, option
from moneystate.cli.options import AnyService, Json, Quiet
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import ConfigError
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.offsets import topic_states
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

SCOPE: Final = "TABLE"  # prefix of the variables whose names other commands have, too
LEAST_EVERY_MS = 1_000
END_S = 10.0  # how long a load may take to end after a signal
STATE_FOLDER = Path("~/.local/state/moneystate/tables")

app = new_group("table", "Rows of tables, as services read them.")


@dataclass(frozen=True)
class Place(Flags):
    """The table's topic, and where it is."""

    topic: Annotated[str, option("topic", "The table's topic, without its prefix.", Panel.topics, "TOPIC")]
    cluster: ClusterFlags
    new_topics: NewTopicFlags
    create_topic: bool = flag(False, "Create the topic if it is missing.", Panel.topics)

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def name(self) -> str:
        return self.cluster.topic_prefix + self.topic

    def check(self, settings: dict[str, str]) -> int:
        """The size that a record may have. `settings`: of Kafka's clients. Raises SetupError and BrokerError."""
        replication = self.new_topics.replication()  # a contradiction is refused before the broker is asked
        check_reachable(self.servers, settings)
        admin = admin_client(self.servers, settings)
        if self.create_topic:
            create_topic(admin, self.name, self.new_topics.topic_partitions, replication)
        return check_topic(admin, self.name)


@dataclass(frozen=True)
class Given(Flags):
    """Holds what the flags say about the source. Raises ConfigError."""

    file: Annotated[
        Path | None, typer.Argument(metavar="SOURCE", help="A file of CSV, JSON Lines or Parquet.", show_default=False)
    ] = None
    sql: str = flag("", "A query whose rows are the table, instead of a file.", Panel.input, "QUERY")
    dsn_file: Path | None = flag(
        None, "File with the connection string for --sql, as libpq or SQLAlchemy take it.", Panel.input, PATH
    )
    key: str = flag(
        "", "Columns of the rows' key, separated by commas.", Panel.input, "COLUMN,...", scope=SCOPE,
        shown="the key that --service declares",
    )  # fmt: skip
    service: AnyService = ""
    types: str = flag(
        "", "Types of a CSV file's columns: text, int, number, bool, time, date, json.", Panel.input,
        "COLUMN=TYPE,...", shown="those of --service, else text",
    )  # fmt: skip
    names: Names = flag(Names.camel, "camel: valid_from becomes validFrom, as records are named in JSON.", Panel.input)
    zone: str = flag(
        "", "Zone of times without an offset, such as UTC.", Panel.input, "ZONE", shown="such times are refused"
    )
    file_format: FileFormat | None = flag(
        None, "Format of the file.", Panel.input, "|".join(FileFormat), scope=SCOPE, shown="by its name"
    )
    delimiter: str = flag(",", "Between the cells of a CSV file.", Panel.input, "CHARACTER")

    def __post_init__(self) -> None:
        if (self.file is None) == (not self.sql) or bool(self.sql) != (self.dsn_file is not None):
            raise ConfigError(
                "table load: expected a file, or --sql with --dsn-file.", "give either SOURCE or both of these flags."
            )
        if len(self.delimiter) != 1:
            raise ConfigError(f"--delimiter {self.delimiter}: expected one character.", "give for example ';'.")

    def declared(self) -> Declared:
        """Raises ConfigError."""
        parts = tuple(part.strip() for part in self.key.split(",") if part.strip())
        return Declared(parts, self.names, parsed_types(self.types), None, _zone(self.zone))

    def source(self, declared: Declared, wait: Callable[[float], object]) -> FileSource | QuerySource:
        """Raises ConfigError."""
        if self.file is not None:
            return FileSource(self.file, self.file_format, declared, self.delimiter, wait)
        assert self.dsn_file is not None
        return QuerySource(self.sql, self.dsn_file, declared)


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(f"--zone {name}: expected a time zone.", "give for example UTC or Europe/Berlin.") from None


@dataclass(frozen=True)
class LoadFlags(Flags):
    place: Place
    given: Given
    metrics_flags: MetricsFlags
    on_error: OnError = flag(
        OnError.fail, "fail: a row that cannot be loaded ends the load. skip: the topic keeps what it has of it.",
        Panel.run, scope=SCOPE,
    )  # fmt: skip
    allow_deletes: bool = flag(False, "Load also if most rows are gone, or all.", Panel.run)
    dry_run: bool = flag(False, "Show what would change, and write nothing.", Panel.run, scope=SCOPE)
    every: str = flag("", "Stay, and load again after this time.", Panel.run, DURATION)
    watch: bool = flag(False, "Stay, and load again when the file has changed.", Panel.run)
    digests: Path | None = flag(
        None, "Folder of digests of the topic's rows; built from the topic where it is missing.", Panel.run, PATH,
        shown="~/.local/state/moneystate/tables/TOPIC-ID",
    )  # fmt: skip
    quiet: Quiet = False
    json_output: Json = False

    def __post_init__(self) -> None:
        """Raises ConfigError for flags that exclude each other."""
        if self.watch and (self.every or self.given.file is None):
            raise ConfigError("--watch: expected a file, and no --every.", "with --sql, give --every.")
        if (self.watch or self.every) and self.dry_run:
            raise ConfigError("--dry-run: expected neither --every nor --watch.", "leave them out.")


def load(context: typer.Context, flags: LoadFlags) -> None:
    """Make a table's topic equal to a file or a query.

    It writes the rows that differ and deletes those that are gone, in one transaction. A load that ends in the middle
    leaves no trace. With --every or --watch it stays until SIGTERM, and logs.
    """
    every_ms = parse_ms(flags.every, "--every", LEAST_EVERY_MS) if flags.every else 0
    reference = services.chosen_if_given(context, flags.given.service)
    if not flags.every and not flags.watch:
        with WorkProgress(flags.quiet) as progress, _loader(flags, reference, progress.show) as (loader, _):
            _say(loader.load(), flags)
        return
    with stop_signals() as stopped, _loader(flags, reference, _quiet, stopped) as (loader, source):
        when: When = Watching(source) if isinstance(source, FileSource) and flags.watch else Every(every_ms / 1000)
        staying = Staying(loader, when, stopped, Pulse())
        flags.metrics_flags.expose(Metrics(staying, flags.place.name), staying.live, staying.ready)
        threading.Thread(target=_end_hard, args=(stopped,), name="last resort", daemon=True).start()
        staying.run()
        _log.info("stopped", loads=staying.good)


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
    flags: LoadFlags, reference: str, progress: Callable[[str, int, int], object], stopped: StopSignals | None = None
) -> Iterator[tuple[Loader, FileSource | QuerySource]]:
    """`reference`: of the service that has the table; empty: none. `stopped`: ends a load between chunks. Raises
    ConfigError, SetupError, InstanceError and BrokerError."""

    def check() -> None:
        if stopped is not None and stopped.is_set():
            raise Ended

    def wait(seconds: float) -> None:
        check()
        time.sleep(seconds)

    place, settings = flags.place, flags.place.cluster.settings()
    declared, check_row = flags.given.declared(), None
    if reference:
        table = table_of_service(reference, place.topic)
        declared, check_row = replace(declared, record=table.record, key=declared.key or table.key), table.check
    if not declared.key:
        raise ConfigError("--key: expected the columns of the key, found none.", "give --key COLUMN.")
    source = flags.given.source(declared, wait)
    most_bytes = place.check(settings)
    states = topic_states(admin_client(place.servers, settings), [place.name])
    home = flags.digests or STATE_FOLDER.expanduser() / f"{place.name}-{states[place.name].topic_id}"
    follower = Follower(place.servers, settings, place.name, Digests(home / "digests"))
    writer = TableWriter(place.servers, settings, place.name)
    around = Surroundings(lambda: time.time_ns() // 1_000_000, check, progress)
    make = RecordMaker(source.key, most_bytes, check_row)
    loader = Loader(source, make, follower, writer, home / "pending", filled(Choices, flags), around)
    try:
        yield loader, source
    finally:
        loader.close()


def _say(loaded: Load, flags: LoadFlags) -> None:
    if flags.json_output:
        typer.echo(json.dumps(_as_json(loaded, flags)))
        return
    for line in loaded.changes:
        typer.echo(line)
    c = loaded.counts
    if c.changed + c.deleted > len(loaded.changes) > 0:
        typer.echo(f"... and {c.changed + c.deleted - len(loaded.changes):,} more")
    left = f", {loaded.skipped:,} left out" if loaded.skipped else ""
    done = "would change" if flags.dry_run else "changed"
    typer.echo(f"{flags.place.name}: {c.rows:,} rows, {c.changed:,} {done}, {c.deleted:,} deleted{left}")


def _as_json(loaded: Load, flags: LoadFlags) -> dict[str, Any]:
    c = loaded.counts
    shown = {"changes": loaded.changes} if flags.dry_run else {}
    return {
        "topic": flags.place.name,
        "rows": c.rows,
        "changed": c.changed,
        "deleted": c.deleted,
        "skipped": loaded.skipped,
        "deletions_held_back": c.held_back,
        "source": loaded.source,
        "loaded_at": iso_time.from_ms(loaded.loaded_at_ms),
        **shown,
    }


add(app, load, "load", logs=True)
