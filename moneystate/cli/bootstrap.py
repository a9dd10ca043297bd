"""`moneystate bootstrap`: state from history."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from moneystate.bootstrap.job import Bootstrap, Prepared
from moneystate.bootstrap.options import BootstrapOptions
from moneystate.cli import facts_view, registry, services
from moneystate.cli.durations import parse_ms
from moneystate.cli.options import (
    BOUND,
    DEDUP_TTL,
    MAX_FUTURE,
    MAX_RECORD_BYTES,
    Bound,
    Format,
    KafkaConfig,
    KafkaConfigFile,
    MaxFuture,
    MaxRecordBytes,
    PlainService,
    SessionLookup,
    SparkConfig,
    flag,
    formats,
    kafka_settings,
    pairs,
)
from moneystate.cli.review import check_review, review
from moneystate.cli.rule_flags import rules_given
from moneystate.cli.settings_file import ConfigFile
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import ConfigError
from moneystate.spark.local_path import local_folder


def bootstrap(
    context: typer.Context,
    source: Annotated[
        list[str],
        typer.Option(
            "--from",
            help="kafka, or the folder of an archive. May be repeated: Kafka goes on where the archives end.",
            envvar="MONEYSTATE_FROM",
        ),
    ],
    out: Annotated[Path, flag("OUT", "Folder to make: the savepoint.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[RULES]", help="With --service: its rules, such as --wait 30m.")
    ] = None,
    service: PlainService = "",
    config: ConfigFile = None,
    as_of: Annotated[
        str,
        flag("AS_OF", "Where the history ends: end, an ISO-8601 time of Kafka timestamps, or a JSON file of offsets."),
    ] = "end",
    with_output: Annotated[
        bool, flag("WITH_OUTPUT", "Keep what is put out before the cut; the start from the savepoint writes it.")
    ] = False,
    review_first: Annotated[
        bool, typer.Option("--review", help="Show what the state would be, and ask before the savepoint is made.")
    ] = False,
    checkpoint: Annotated[
        str, typer.Option(help="With --review: a stopped job's checkpoint, or a savepoint, to compare with.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="With --review: do not ask.")] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Folder for what is in the making, on every machine the same.",
            envvar="MONEYSTATE_WORK",
            show_default="beside --out",
        ),
    ] = None,
    initial_highs: Annotated[
        Path | None,
        typer.Option(
            help="JSON {topic: {partition: ms or null}}: highest event times before ranges that do not begin at the "
            "beginning.",
            envvar="MONEYSTATE_INITIAL_HIGHS",
        ),
    ] = None,
    bootstrap_servers: Annotated[str, flag("BOOTSTRAP_SERVERS", "Kafka brokers, HOST:PORT,...")] = "",
    topic_prefix: Annotated[str, flag("TOPIC_PREFIX", "The live job's; it names dead letters.")] = "",
    bound: Bound = BOUND,
    session_ttl: Annotated[str, flag("SESSION_TTL", "How long after its creation a session is valid.")] = "1d",
    dedup_ttl: Annotated[str, flag("DEDUP_TTL", "How long a money id is remembered.")] = DEDUP_TTL,
    session_wait: Annotated[str, flag("SESSION_WAIT", "How long money waits for its session.")] = "60s",
    max_future: MaxFuture = MAX_FUTURE,
    max_record_bytes: MaxRecordBytes = MAX_RECORD_BYTES,
    session_lookup: Annotated[
        SessionLookup, flag("SESSION_LOOKUP", "topic: read the replies of lookups, too.")
    ] = SessionLookup.none,
    key_groups: Annotated[int, flag("KEY_GROUPS", "Key groups of the savepoint.")] = 64,
    partitions: Annotated[int, flag("PARTITIONS", "Partitions of the operator that starts from it.")] = 4,
    max_records_per_chunk: Annotated[int, flag("MAX_RECORDS_PER_CHUNK", "Records of one chunk at most.")] = 200_000,
    source_tasks: Annotated[int, flag("SOURCE_TASKS", "Tasks that read; 0: one for each core.")] = 0,
    format: Format = None,
    schema_registry: Annotated[str, flag("SCHEMA_REGISTRY", "URL, for topics in the confluent format.")] = "",
    master: Annotated[str, flag("MASTER", "Spark master; else what spark-submit says, or local[*].")] = "",
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
    spark_config: SparkConfig = None,
    json_output: Annotated[bool, typer.Option("--json", help="At the end print the savepoint in numbers.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Make a savepoint from history: the state that a live job would have after it.

    Reads Kafka, archives or both, up to a cut. Start a job from it with enrich --initial-state. What is finished is
    kept beside --out until the end: the same command goes on where it was stopped.
    """
    if (checkpoint or yes) and not review_first:
        raise ConfigError("--checkpoint and --yes: expected with --review.", "add --review.")
    if review_first:
        check_review(checkpoint, yes)
    reference = services.chosen(context, service, config)
    spec = registry.chosen(reference)
    rules = {
        "bound_ms": parse_ms(bound, "--bound"),
        "session_ttl_ms": parse_ms(session_ttl, "--session-ttl", 1),
        "dedup_ttl_ms": parse_ms(dedup_ttl, "--dedup-ttl", 1),
        "session_wait_ms": parse_ms(session_wait, "--session-wait"),
        "max_future_ms": parse_ms(max_future, "--max-future"),
        "max_record_bytes": max_record_bytes,
        "lookup": session_lookup is SessionLookup.topic,
    }
    job = spec.job({**rules, **rules_given(reference, words or [])})
    options = BootstrapOptions(
        sources=source,
        out=local_folder(str(out), "--out"),
        work=work,
        as_of=as_of,
        initial_highs=initial_highs,
        with_output=with_output,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=topic_prefix,
        key_groups=key_groups,
        partitions=partitions,
        max_records_per_chunk=max_records_per_chunk,
        source_tasks=source_tasks,
        formats=formats(format or [], schema_registry, spec.formatted, spec.formats),
        registry_url=schema_registry or None,
        master=master or None,
        kafka_config=kafka_settings(kafka_config_file, kafka_config),
        spark_config=pairs(spark_config or [], "--spark-config"),
    )
    with WorkProgress(quiet) as progress:
        run = Bootstrap(job, options, lambda p: progress.show(p.phase, p.done, p.total))
        prepared = run.prepare()
    if review_first and not review(spec.state, prepared, checkpoint, yes):
        typer.echo(f"{out} is not made; the same command goes on from {options.work_folder}.", err=True)
        raise typer.Exit(1)
    run.publish()
    _tell(prepared, out, json_output, quiet)


def _tell(prepared: Prepared, out: Path, json_output: bool, quiet: bool) -> None:
    m = prepared.savepoint.manifest
    if json_output:
        numbers = {
            "savepoint": str(out),
            "records": prepared.records,
            "users": prepared.users,
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
    console.print(f"{out}: {prepared.records:,} records, {prepared.users:,} users, fingerprint {m.fingerprint}")
    if prepared.silent:
        console.print(
            f"[yellow]{', '.join(prepared.silent)}: no record yet, so the watermark stands and all events wait.[/] "
            "They are in the savepoint's buffer."
        )
    if m.plan is None:
        console.print("[yellow]The history has no offsets: a job that starts from this needs --initial-offsets.[/]")
