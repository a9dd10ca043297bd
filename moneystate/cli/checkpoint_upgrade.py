"""`moneystate checkpoint upgrade`: rewrites all of a checkpoint's state in the current version, without a replay.

A running job rewrites each entry in the current version when it next changes it. A run of this command reads no input.
Each batch rewrites the entries of a share of the key groups, in one transaction with the changelog and the
markers. The plans record the progress, so a run that was stopped or killed can be resumed.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from moneystate.cli.checkpoint_schemas import count_state
from moneystate.cli.flag_groups import KafkaFlags, SparkFlags
from moneystate.cli.job_kinds import kind_of
from moneystate.cli.option import NUMBER, Flags, Panel, check_given, filled, flag
from moneystate.cli.options import BootstrapServers, CheckpointFolder, Json, ServiceOfState
from moneystate.cli.state_owner import service_of
from moneystate.cli.tables import print_table
from moneystate.engine import plan as plans
from moneystate.engine.plan import STATE_VERSION
from moneystate.errors import CheckpointError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.progress import BatchProgress
from moneystate.job.run_options import RunOptions
from moneystate.ports.state import Versions
from moneystate.runtime.folders import avro_root, folder_of
from moneystate.schemas.tree import Tree, read_folder, tree_of
from state_tools.export import FINISH_FIRST

TITLE = "upgrade"


@dataclass(frozen=True)
class RewriteFlags(Flags):
    checkpoint: CheckpointFolder
    kafka_flags: KafkaFlags
    spark_flags: SparkFlags
    bootstrap_servers: BootstrapServers = ""
    batches: int = flag(
        16, "Number of batches of the whole run; each rewrites a share of the key groups.", Panel.run, NUMBER, least=1
    )
    dry_run: bool = flag(False, "Only count the entries by version; needs no broker.", Panel.run)
    service: ServiceOfState = ""
    json_output: Json = False


def upgrade(flags: RewriteFlags) -> None:
    """Rewrite all state in the current state version.

    The job must not run at the same time.
    """
    existing = _existing(flags)
    if flags.dry_run:
        _show_counts(existing, flags.service, flags.json_output)
    else:
        _run(existing, flags.service, _options(existing, flags), flags.json_output)


def _existing(flags: RewriteFlags) -> Checkpoint:
    flags.spark_flags.configure()
    existing = Checkpoint(flags.checkpoint)
    if existing.is_new() or existing.last_committed() < 0:
        raise CheckpointError(
            f"{flags.checkpoint}: expected a checkpoint with at least one batch, found none.", "check the path."
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


def _options(existing: Checkpoint, flags: RewriteFlags) -> RunOptions:
    kafka_config = flags.kafka_flags.settings()
    check_given(bootstrap_servers=flags.bootstrap_servers)
    settings = existing.settings()
    as_before = {name: settings[name] for name in ("topic_prefix", "application_id", "key_groups", "partitions")}
    return filled(
        RunOptions,
        flags,
        checkpoint=existing.root,
        bounded=True,
        master=flags.spark_flags.master or None,
        create_topics=False,
        kafka_config=kafka_config,
        spark_config=flags.spark_flags.configure(),
        rewrite=(min(flags.batches, settings["key_groups"]), STATE_VERSION),
        local=bool(settings.get("local")),
        **as_before,
    )


def kept_rules(checkpoint: Checkpoint) -> dict[str, Any]:
    """The rules of the last batch. With other rules, time could advance although nothing is read."""
    return checkpoint.rules(str(checkpoint.offset(checkpoint.last_planned())["rules"]))


def _run(checkpoint: Checkpoint, given: str, options: RunOptions, json_output: bool) -> None:
    assert options.rewrite is not None
    _check_no_input_planned(checkpoint)
    shares, version = options.rewrite
    service = service_of(checkpoint.root, given)
    bar = _Bar(checkpoint, shares, version)
    kind = kind_of(options)
    with bar.progress:
        job = kind.job(service.job(kept_rules(checkpoint)), options, bar.batch)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: job.stop())
        kind.run([job])
    bar.say()
    if json_output:
        typer.echo(
            json.dumps({"done": min(bar.done, shares), "shares": shares, "entries": bar.entries, "version": version})
        )


class _Bar:
    """Batches done and to do, entries rewritten and their rate, on stderr."""

    def __init__(self, checkpoint: Checkpoint, shares: int, version: int) -> None:
        self.console = Console(stderr=True)
        self.checkpoint = checkpoint
        self.shares = shares
        self.version = version
        self.done = self._done(checkpoint.last_committed())
        self.entries = 0
        self.seconds = 0.0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.progress.add_task(TITLE, total=shares + 1, completed=self.done)

    def _done(self, batch: int) -> int:
        """Returns how many batches are done after a batch, including the closing one, according to the plans."""
        return plans.next_share(plans.from_offset(self.checkpoint.offset(batch)), self.shares, self.version)

    def batch(self, progress: BatchProgress) -> None:
        self.done = self._done(progress.batch)
        self.entries += progress.changes
        self.seconds += progress.seconds
        self.progress.update(self.task, completed=self.done, description=self.line())

    def line(self) -> str:
        return f"{TITLE}: {self.entries:,} entries, {self.entries / max(self.seconds, 1e-9):,.0f}/s"

    def say(self) -> None:
        whole = f"the state has version {self.version}"
        state = whole if self.done > self.shares else "stopped; run the command again to continue"
        done = f"{min(self.done, self.shares)}/{self.shares} batches"
        self.console.print(f"{self.line()}, {done}; {state}", highlight=False)


def _show_counts(checkpoint: Checkpoint, given: str, json_output: bool) -> None:
    """Shows the entries by record and version, and how many must be rewritten."""
    service = service_of(checkpoint.root, given)
    folders = [avro_root(), folder_of(service.job({}).service)]
    tree = tree_of({path: content for root in folders for path, content in read_folder(root).items()})
    rows = _rows(tree, service.state.versions, count_state(checkpoint))
    if json_output:
        typer.echo(json.dumps({"version": STATE_VERSION, "entries": rows}))
        return
    cells = [[row["record"], f"v{row['version']}", f"{row['entries']:,}", f"{row['rewrite']:,}"] for row in rows]
    numbers = ["entries", "to rewrite"]
    print_table(Console(), ["record", "version", *numbers], cells, right=numbers)


def _rows(tree: Tree, versions: Versions, counts: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    wanted = {header[2:].hex() for header in versions.written}
    totals: dict[str, int] = {}
    for (_, schema), n in counts.items():
        totals[schema] = totals.get(schema, 0) + n
    rows = []
    for schema, n in totals.items():
        known = tree.of_fingerprint(schema)
        name, number = (Path(known.name).name, known.number) if known else (f"unknown {schema}", 0)
        rows.append({"record": name, "version": number, "entries": n, "rewrite": 0 if schema in wanted else n})
    return sorted(rows, key=lambda row: (row["record"], row["version"]))
