"""`moneystate archive`: topics into files."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from moneystate.bootstrap.archive import ArchiveOptions, Archiver
from moneystate.cli import registry, services
from moneystate.cli.options import (
    Format,
    KafkaConfig,
    KafkaConfigFile,
    PlainService,
    SessionLookup,
    flag,
    formats,
    kafka_settings,
)
from moneystate.cli.settings_file import ConfigFile
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import ConfigError
from moneystate.kafka.source_spec import load_decoder
from moneystate.spark.local_path import local_folder


class FileFormat(StrEnum):
    avro = "avro"
    parquet = "parquet"
    jsonl = "jsonl"


def archive(
    context: typer.Context,
    bootstrap_servers: Annotated[str, flag("BOOTSTRAP_SERVERS", "Kafka brokers, HOST:PORT,...")],
    out: Annotated[Path, flag("OUT", "Folder of the archive; one that is there is gone on with.")],
    topic_prefix: Annotated[str, flag("TOPIC_PREFIX", "Goes before each topic's name.")] = "",
    starting_offsets: Annotated[
        str, flag("STARTING_OFFSETS", "Where a new archive begins: earliest, an ISO-8601 time, or a JSON file.")
    ] = "earliest",
    as_of: Annotated[str, flag("AS_OF", "Where it ends: end, an ISO-8601 time, or a JSON file of offsets.")] = "end",
    initial_highs: Annotated[
        Path | None,
        typer.Option(
            help="JSON {topic: {partition: ms or null}}: highest event times before ranges whose beginning Kafka has "
            "no more.",
            envvar="MONEYSTATE_INITIAL_HIGHS",
        ),
    ] = None,
    records_per_file: Annotated[int, flag("RECORDS_PER_FILE", "Offsets of one file at most.")] = 100_000,
    file_format: Annotated[FileFormat, flag("FILE_FORMAT", "Of the files.")] = FileFormat.avro,
    session_lookup: Annotated[
        SessionLookup, flag("SESSION_LOOKUP", "topic: archive the replies of lookups, too.")
    ] = SessionLookup.none,
    service: PlainService = "",
    config: ConfigFile = None,
    format: Format = None,
    schema_registry: Annotated[str, flag("SCHEMA_REGISTRY", "URL, for topics in the confluent format.")] = "",
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
    json_output: Annotated[bool, typer.Option("--json", help="At the end print the archive in numbers.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Write the job's input topics into files that bootstrap reads. The same command goes on where it was stopped."""
    if records_per_file < 1:
        raise ConfigError(f"--records-per-file {records_per_file}: expected at least 1.")
    spec = registry.chosen(services.chosen(context, service, config))
    job = spec.job({"lookup": session_lookup is SessionLookup.topic})
    options = ArchiveOptions(
        bootstrap_servers=bootstrap_servers,
        out=local_folder(str(out), "--out"),
        topic_prefix=topic_prefix,
        starting_offsets=starting_offsets,
        as_of=as_of,
        initial_highs=initial_highs,
        records_per_file=records_per_file,
        file_format=file_format.value,
        formats=formats(format or [], schema_registry, spec.formatted, spec.formats),
        registry_url=schema_registry or None,
        kafka_config=kafka_settings(kafka_config_file, kafka_config),
        schemas=job.schemas,
    )
    archiver = Archiver(options, job.inputs, load_decoder(job.decoder))
    total = archiver.total()
    with WorkProgress(quiet) as progress:
        progress.show("archiving", 0, total)
        archiver.run(lambda done: progress.show("archiving", done, total))
    if json_output:
        ends = [[w.topic, w.partition, w.start, w.end] for w in archiver.work]
        typer.echo(json.dumps({"archive": str(out), "offsets": total, "ranges": ends}))
