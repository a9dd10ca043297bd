"""`moneystate bootstrap`: computes state from history."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from moneystate.bootstrap.job import Bootstrap, Prepared
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.cli import facts_view, services
from moneystate.cli.flag_groups import FormatFlags, KafkaFlags, RuleFlags, SparkFlags
from moneystate.cli.option import PATH, PATH_OR_URI, Flags, Panel, filled, flag, repeated
from moneystate.cli.options import (
    AsOf,
    BootstrapServers,
    GivenService,
    InitialHighs,
    Json,
    KeyGroups,
    Local,
    MaxRecordsPerChunk,
    Partitions,
    Quiet,
    Savepoint,
    SourceTasksOrCores,
    TopicPrefix,
    work_folder,
)
from moneystate.cli.review import check_review, review
from moneystate.cli.rule_flags import rules_given
from moneystate.cli.work_progress import WorkProgress
from moneystate.engine.plan import Reached
from moneystate.errors import CheckpointError, ConfigError
from moneystate.job.local_path import is_local
from moneystate.job.storage.savepoints import new_savepoint
from moneystate.runtime.job import service_spec
from state_tools.export import open_checkpoint


@dataclass(frozen=True)
class BootstrapFlags(Flags):
    out: Savepoint
    service: GivenService
    kafka_flags: KafkaFlags
    format_flags: FormatFlags
    rule_flags: RuleFlags
    spark_flags: SparkFlags
    as_of: AsOf = "end"
    with_output: bool = flag(
        False, "Keep the output up to the cut; a job that starts from the savepoint writes it.", Panel.state
    )
    review_first: bool = flag(
        False, "Show a summary of the state, and ask before making the savepoint.", Panel.run, name="review"
    )
    compare_with: str = flag(
        "", "With --review: checkpoint of a stopped job, or savepoint, to compare with.", Panel.run, PATH
    )
    yes: bool = flag(False, "With --review: do not ask.", Panel.run)
    work: Annotated[Path | None, work_folder(shown="beside --out")] = None
    initial_highs: InitialHighs = None
    like: str = flag(
        "",
        "Checkpoint of a job: follow the watermarks that it recorded where idle partitions or the broker's clock "
        "decided.",
        Panel.input, PATH_OR_URI,
    )  # fmt: skip
    bootstrap_servers: BootstrapServers = ""
    topic_prefix: TopicPrefix = ""
    key_groups: KeyGroups = 64
    partitions: Partitions = 4
    max_records_per_chunk: MaxRecordsPerChunk = 200_000
    source_tasks: SourceTasksOrCores = None
    local: Local = False
    json_output: Json = False
    quiet: Quiet = False

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        if (self.compare_with or self.yes) and not self.review_first:
            raise ConfigError("--compare-with, --yes: expected --review as well.", "add --review.")
        if self.review_first:
            check_review(self.compare_with, self.yes)


def bootstrap(
    context: typer.Context,
    source: Annotated[
        list[str],
        repeated(
            "from", "kafka, or the folder of an archive; Kafka continues where the archives end.", Panel.input,
            "kafka|PATH|URI",
        ),
    ],
    flags: BootstrapFlags,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="RULE", help="Rules of the service, such as --wait 30m.")
    ] = None,
) -> None:  # fmt: skip
    """Make a savepoint from history.

    It has the state that a live job would have.

    The command reads Kafka, archives or both, up to a cut. Start a job from the savepoint with --initial-state.
    Finished work is kept beside --out (or in --work) until the end, so the same command resumes a run that was
    stopped. The default of --source-tasks is one for each core.
    """
    out = flags.out
    reference = services.chosen(context, flags.service)
    spec = service_spec(reference)
    job = spec.job({**flags.rule_flags.rules(), **rules_given(reference, words or [])})
    spark_config = flags.spark_flags.configure()
    if flags.work is None and not is_local(out):
        raise ConfigError(f"--out {out}: expected --work as well.", "give a folder of this machine for finished work.")
    with new_savepoint(out, flags.work) as path:
        options = filled(
            BootstrapOptions,
            flags,
            sources=source,
            out=path,
            reached=_reached(flags.like, job.name) if flags.like else (),
            source_tasks=flags.source_tasks or 0,
            formats=flags.format_flags.by_topic(spec.formatted, spec.formats, spec.decoded),
            registry_url=flags.format_flags.schema_registry or None,
            master=flags.spark_flags.master or None,
            kafka_config=flags.kafka_flags.settings(),
            spark_config=spark_config,
        )
        with WorkProgress(flags.quiet) as progress:
            run = Bootstrap(job, options, lambda p: progress.show(p.phase, p.done, p.total))
            prepared = run.prepare()
        if flags.review_first and not review(spec.state, prepared, flags.compare_with, flags.yes):
            typer.echo(f"{out} was not made; the same command resumes from {options.work_folder}.", err=True)
            raise typer.Exit(1)
        run.publish()
    _tell(prepared, out, flags.json_output, flags.quiet)


def _reached(folder: str, job: str) -> list[Reached]:
    """The watermarks that a checkpoint has recorded."""
    checkpoint = open_checkpoint(folder)
    made_by = checkpoint.settings()["job"]
    if made_by != job:
        raise CheckpointError(
            f"--like {folder}: expected a checkpoint of {job}, found one of {made_by}.",
            "give that of the same service.",
        )
    return checkpoint.watermarks()


def _tell(prepared: Prepared, out: str, json_output: bool, quiet: bool) -> None:
    m = prepared.savepoint.manifest
    if json_output:
        numbers = {
            "savepoint": out,
            "records": prepared.records,
            "keys": prepared.keys,
            "buffered": prepared.buffered,
            "counts": m.counts,
            "silent_partitions": prepared.silent,
            "fingerprint": m.fingerprint,
            **facts_view.time_ms(m.watermark),
        }
        typer.echo(json.dumps(numbers))
    if quiet:
        return
    console = Console(file=sys.stderr, soft_wrap=True, highlight=False)
    console.print(f"{out}: {prepared.records:,} records, {prepared.keys:,} keys, fingerprint {m.fingerprint}")
    if prepared.silent:
        console.print(
            f"[yellow]{', '.join(prepared.silent)}: no record yet, so the watermark is held and all events wait.[/] "
            "They are in the savepoint's buffer."
        )
    if m.plan is None:
        console.print("[yellow]The history has no offsets: a job that starts from this needs --initial-offsets.[/]")
