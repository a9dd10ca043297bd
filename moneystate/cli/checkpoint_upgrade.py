"""`moneystate checkpoint upgrade` and `downgrade`: rewrite all of a checkpoint's state in one version, without a
replay.

A running job rewrites each entry in the current version when it next changes it. The runs of these commands read no
input. Each batch rewrites the entries of a share of the key groups, in one transaction with the changelog and the
markers. The plans record the progress, so a run that was stopped or killed can be resumed.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from moneystate.cli import registry, services
from moneystate.cli.checkpoint_schemas import count_state
from moneystate.cli.command import add
from moneystate.cli.flag_groups import KafkaFlags, SparkFlags
from moneystate.cli.job_kinds import kind_of
from moneystate.cli.option import NUMBER, Panel, check_given, flagged, option
from moneystate.cli.options import BootstrapServers, CheckpointFolder, Json, PlainService
from moneystate.cli.tables import print_table
from moneystate.engine import plan as plans
from moneystate.engine.plan import STATE_VERSION
from moneystate.errors import CheckpointError, ConfigError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.progress import BatchProgress
from moneystate.job.run_options import RunOptions
from moneystate.ports.service import ServiceSpec
from moneystate.ports.state import Versions
from moneystate.runtime.folders import avro_root, folder_of
from moneystate.schemas.tree import Tree, read_folder, tree_of
from state_tools.downgrade_check import check_downgrade
from state_tools.export import FINISH_FIRST

Batches = Annotated[
    int,
    option(
        "batches", "Number of batches of the whole run; each rewrites a share of the key groups.", Panel.run,
        NUMBER, least=1,
    ),
]  # fmt: skip
DryRun = Annotated[bool, option("dry-run", "Only count the entries by version; needs no broker.", Panel.run)]


@dataclass(frozen=True)
class RewriteFlags:
    """The flags that both commands have."""

    kafka_flags: KafkaFlags
    spark_flags: SparkFlags
    bootstrap_servers: BootstrapServers = ""
    batches: Batches = 16
    dry_run: DryRun = False
    service: PlainService = ""
    json_output: Json = False


def register(app: typer.Typer) -> None:
    add(app, flagged(upgrade, "flags", RewriteFlags), "upgrade")
    add(app, flagged(downgrade, "flags", RewriteFlags), "downgrade")


def upgrade(checkpoint: CheckpointFolder, flags: RewriteFlags) -> None:
    """Rewrite all state in the current state version.

    The job must not run at the same time.
    """
    _rewrite(_existing(checkpoint, flags), flags, STATE_VERSION, "upgrade")


def downgrade(
    checkpoint: CheckpointFolder,
    flags: RewriteFlags,
    to: Annotated[int, option("to", "The state version that the older program knows.", Panel.state, NUMBER, least=1)],
) -> None:
    """Rewrite all state in an earlier version.

    An older program can then continue. The command is refused, with nothing rewritten, if something in the state cannot
    be written in that version.
    """
    if not 0 < to < STATE_VERSION:
        raise ConfigError(f"--to {to}: expected an earlier state version.", f"give 1 to {STATE_VERSION - 1}.")
    existing = _existing(checkpoint, flags)
    written = _service(existing, flags.service).state.versions.written
    if to not in written:
        raise ConfigError(
            f"--to {to}: expected a state version of this service, found none of that number.",
            f"give one of {', '.join(map(str, sorted(written)))}.",
        )
    _rewrite(existing, flags, to, "downgrade")


def _rewrite(existing: Checkpoint, flags: RewriteFlags, version: int, title: str) -> None:
    if flags.dry_run:
        _show_counts(existing, flags.service, version, flags.json_output)
    else:
        _run(existing, flags.service, _options(existing, flags, version), title, flags.json_output)


def _existing(folder: str, flags: RewriteFlags) -> Checkpoint:
    flags.spark_flags.configure()
    existing = Checkpoint(folder)
    if existing.is_new() or existing.last_committed() < 0:
        raise CheckpointError(
            f"{folder}: expected a checkpoint with at least one batch, found none.", "check the path."
        )
    existing.check_version()
    return existing


def _check_no_input_planned(checkpoint: Checkpoint) -> None:
    """Refuses a checkpoint with an unfinished batch, which needs the job's own flags, such as the topics' formats."""
    planned = checkpoint.last_planned()
    if planned > checkpoint.last_committed() and plans.from_offset(checkpoint.offset(planned)).rewrite is None:
        raise CheckpointError(
            f"{checkpoint.root}: expected all batches of the job to be finished, found batch {planned} unfinished.",
            FINISH_FIRST,
        )


def _options(existing: Checkpoint, flags: RewriteFlags, version: int) -> RunOptions:
    kafka_config = flags.kafka_flags.settings()
    check_given(bootstrap_servers=flags.bootstrap_servers)
    settings = existing.settings()
    return RunOptions(
        bootstrap_servers=flags.bootstrap_servers,
        checkpoint=existing.root,
        topic_prefix=settings["topic_prefix"],
        application_id=settings["application_id"],
        bounded=True,
        key_groups=settings["key_groups"],
        partitions=settings["partitions"],
        master=flags.spark_flags.master or None,
        create_topics=False,
        kafka_config=kafka_config,
        spark_config=flags.spark_flags.configure(),
        rewrite=(min(flags.batches, settings["key_groups"]), version),
        local=bool(settings.get("local")),
    )


def _service(checkpoint: Checkpoint, given: str) -> ServiceSpec:
    return registry.service_of(checkpoint.root, given)


def kept_rules(checkpoint: Checkpoint) -> dict[str, Any]:
    """The rules of the last batch. With other rules, time could advance although nothing is read."""
    return checkpoint.rules(str(checkpoint.offset(checkpoint.last_planned())["rules"]))


def _run(checkpoint: Checkpoint, given: str, options: RunOptions, title: str, json_output: bool) -> None:
    assert options.rewrite is not None
    _check_no_input_planned(checkpoint)
    shares, version = options.rewrite
    service = _service(checkpoint, given)
    bar = _Bar(title, checkpoint, shares, version)

    def precheck(session: SparkSession) -> None:
        check_downgrade(session, service.state.versions, checkpoint, options.key_groups, version)

    kind = kind_of(options)
    with bar.progress:
        job = kind.job(service.job(kept_rules(checkpoint)), options, bar.batch)
        if version < STATE_VERSION:
            _check_on_spark(options)
            job.precheck = precheck
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: job.stop())
        kind.run([job])
    bar.say()
    if json_output:
        typer.echo(
            json.dumps({"done": min(bar.done, shares), "shares": shares, "entries": bar.entries, "version": version})
        )


def _check_on_spark(options: RunOptions) -> None:
    """Raises CheckpointError."""
    if options.local:
        raise CheckpointError(
            f"{options.checkpoint}: expected a job on Spark for a downgrade, found a local run.",
            "bootstrap from the logs with the earlier program.",
        )


class _Bar:
    """Batches done and to do, entries rewritten and their rate, on stderr."""

    def __init__(self, title: str, checkpoint: Checkpoint, shares: int, version: int) -> None:
        self.console = Console(stderr=True)
        self.title = title
        self.checkpoint = checkpoint
        self.shares = shares
        self.version = version
        self.done = self._done(checkpoint.last_committed())
        self.entries = 0
        self.seconds = 0.0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.progress.add_task(title, total=shares + 1, completed=self.done)

    def _done(self, batch: int) -> int:
        """Returns how many batches are done after a batch, including the closing one, according to the plans."""
        return plans.next_share(plans.from_offset(self.checkpoint.offset(batch)), self.shares, self.version)

    def batch(self, progress: BatchProgress) -> None:
        self.done = self._done(progress.batch)
        self.entries += progress.changes
        self.seconds += progress.seconds
        self.progress.update(self.task, completed=self.done, description=self.line())

    def line(self) -> str:
        return f"{self.title}: {self.entries:,} entries, {self.entries / max(self.seconds, 1e-9):,.0f}/s"

    def say(self) -> None:
        whole = f"the state has version {self.version}"
        state = whole if self.done > self.shares else "stopped; run the command again to continue"
        done = f"{min(self.done, self.shares)}/{self.shares} batches"
        self.console.print(f"{self.line()}, {done}; {state}", highlight=False)


def _show_counts(checkpoint: Checkpoint, given: str, version: int, json_output: bool) -> None:
    """Shows the entries by record and version, and how many must be rewritten."""
    trees = [avro_root(), folder_of(services.load(given))] if given else [avro_root()]
    tree = tree_of({path: content for root in trees for path, content in read_folder(root).items()})
    rows = _rows(tree, _service(checkpoint, given).state.versions, count_state(checkpoint), version)
    if json_output:
        typer.echo(json.dumps({"version": version, "entries": rows}))
        return
    cells = [[row["record"], f"v{row['version']}", f"{row['entries']:,}", f"{row['rewrite']:,}"] for row in rows]
    numbers = ["entries", "to rewrite"]
    print_table(Console(), ["record", "version", *numbers], cells, right=numbers)


def _rows(tree: Tree, versions: Versions, counts: dict[tuple[str, str], int], version: int) -> list[dict[str, Any]]:
    wanted = {header[2:].hex() for header in versions.written[version]}
    totals: dict[str, int] = {}
    for (_, schema), n in counts.items():
        totals[schema] = totals.get(schema, 0) + n
    rows = []
    for schema, n in totals.items():
        known = tree.of_fingerprint(schema)
        name, number = (Path(known.name).name, known.number) if known else (f"unknown {schema}", 0)
        rows.append({"record": name, "version": number, "entries": n, "rewrite": 0 if schema in wanted else n})
    return sorted(rows, key=lambda row: (row["record"], row["version"]))
