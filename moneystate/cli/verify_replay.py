"""`moneystate verify-replay`: checks whether a replay of the logs gives the checkpoint's state and output."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from moneystate.bootstrap.options import BootstrapOptions
from moneystate.cli import facts_view
from moneystate.cli.flag_groups import FormatFlags, KafkaFlags, SparkFlags
from moneystate.cli.option import Flags, filled
from moneystate.cli.options import (
    BootstrapServers,
    CheckpointFolder,
    Json,
    Limit,
    MaxRecordsPerChunk,
    Quiet,
    ServiceOfState,
    SourceTasksOrCores,
    work_folder,
)
from moneystate.cli.state_owner import service_of
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import CheckpointError
from moneystate.ports.state import StateModel
from moneystate.records import exact_json
from state_tools.replay import Replay, Verdict, open_for_replay


@dataclass(frozen=True)
class ReplayFlags(Flags):
    checkpoint: CheckpointFolder
    bootstrap_servers: BootstrapServers
    kafka_flags: KafkaFlags
    format_flags: FormatFlags
    spark_flags: SparkFlags
    parent: Annotated[Path | None, work_folder(shown="a temporary one")] = None
    service: ServiceOfState = ""
    limit: Limit = 20
    max_records_per_chunk: MaxRecordsPerChunk = 200_000
    source_tasks: SourceTasksOrCores = None
    json_output: Json = False
    quiet: Quiet = False


def verify_replay(flags: ReplayFlags) -> None:
    """Replay the logs and compare with a checkpoint.

    The command replays the logs in a scratch folder, up to the checkpoint of a stopped job. It compares state and
    enriched output, and shows --limit differences. It ends with code 0 if they agree, otherwise with 1. It is refused
    if retention or compaction has removed a part of the inputs.
    """
    spark_config = flags.spark_flags.configure()
    opened = open_for_replay(flags.checkpoint)
    spec = service_of(flags.checkpoint, flags.service)
    rules = opened.rules(opened.offset(opened.last_committed())["rules"])
    job = spec.job(rules)
    if not job.is_program_of(rules):
        raise CheckpointError(
            f"{flags.checkpoint}: expected the program that ran the last batch, found another version.",
            "verify it with that version.",
        )
    scratch = Path(tempfile.mkdtemp(prefix="moneystate-replay-", dir=flags.parent))
    options = filled(
        BootstrapOptions,
        flags,
        sources=[],
        out=scratch / "replay",
        source_tasks=flags.source_tasks or 0,
        formats=flags.format_flags.by_topic(spec.formatted, spec.formats, spec.decoded),
        registry_url=flags.format_flags.schema_registry or None,
        master=flags.spark_flags.master or None,
        kafka_config=flags.kafka_flags.settings(),
        spark_config=spark_config,
    )
    try:
        replay = Replay(job, opened, options, flags.limit)
        replay.check()
        with WorkProgress(flags.quiet) as progress:
            verdict = replay.run(scratch, lambda p: progress.show(p.phase, p.done, p.total))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if flags.json_output:
        typer.echo(exact_json.dumps(_as_json(verdict, job.state)))
    else:
        _tell(verdict, job.state)
    raise typer.Exit(0 if verdict.agrees() else 1)


def _as_json(verdict: Verdict, state: StateModel) -> dict[str, object]:
    output = verdict.output
    return {
        "agrees": verdict.agrees(),
        "records": verdict.records,
        "fingerprint": verdict.fingerprint,
        "state_differences": verdict.state.total,
        "first": [facts_view.as_json(state, d) for d in verdict.state.first],
        "output_expected": None if output is None else output.expected,
        "output_missing": None if output is None else output.missing,
        "output_more": None if output is None else output.more,
        "notes": verdict.notes,
    }


def _tell(verdict: Verdict, model: StateModel) -> None:
    console = Console(soft_wrap=True, highlight=False)
    facts_view.print_differences(console, model, verdict.state.first, "the checkpoint", "the replay")
    state = f"{verdict.state.total:,} differences" if verdict.state.total else f"the same ({verdict.fingerprint})"
    console.print(f"{verdict.records:,} records replayed; state: {state}")
    output = verdict.output
    if output is not None:
        besides = "from before the checkpoint" if output.before else "too many"
        console.print(f"output: {output.expected:,} expected, {output.missing:,} missing, {output.more:,} {besides}")
        if output.examples and not output.agrees():
            console.print("keys: " + ", ".join(facts_view.whole_text(key) for key in output.examples))
    for note in verdict.notes:
        console.print(f"note: {note}")
