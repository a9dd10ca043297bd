"""`moneystate archive`: copies topics into files."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from moneystate.bootstrap.archive import ArchiveOptions, Archiver
from moneystate.cli import services
from moneystate.cli.flag_groups import ClusterFlags, FormatFlags, StoreFlags
from moneystate.cli.option import NUMBER, PATH_OR_URI, Panel, choice, option
from moneystate.cli.options import AsOf, GivenService, InitialHighs, Json, Quiet, StartingOffsets
from moneystate.cli.work_progress import WorkProgress
from moneystate.kafka.source_spec import load_decoder
from moneystate.runtime.job import plain_service


class FileFormat(StrEnum):
    avro = "avro"
    parquet = "parquet"
    jsonl = "jsonl"


def archive(
    context: typer.Context,
    folder: Annotated[
        str, option("archive", "Folder of the archive; an existing archive is resumed.", Panel.state, PATH_OR_URI)
    ],
    cluster: ClusterFlags,
    service: GivenService,
    format_flags: FormatFlags,
    store_flags: StoreFlags,
    starting_offsets: StartingOffsets = "earliest",
    as_of: AsOf = "end",
    initial_highs: InitialHighs = None,
    records_per_file: Annotated[
        int, option("records-per-file", "Most offsets in one file.", Panel.state, NUMBER, least=1)
    ] = 100_000,
    file_format: Annotated[
        FileFormat, choice("file-format", "Format of the files.", Panel.state, FileFormat)
    ] = FileFormat.avro,
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the job's input topics into files.

    bootstrap reads them. The same command resumes an archive that was stopped.
    """
    spec = plain_service(services.chosen(context, service))
    store_flags.configure()
    job = spec.job({})
    options = ArchiveOptions(
        bootstrap_servers=cluster.bootstrap_servers,
        out=folder,
        topic_prefix=cluster.topic_prefix,
        starting_offsets=starting_offsets,
        as_of=as_of,
        initial_highs=initial_highs,
        records_per_file=records_per_file,
        file_format=file_format.value,
        formats=format_flags.by_topic(spec.formatted, spec.formats, spec.decoded),
        registry_url=format_flags.schema_registry or None,
        kafka_config=cluster.settings(),
        schemas=job.schemas,
    )
    archiver = Archiver(options, job.inputs, load_decoder(job.decoder))
    total = archiver.total()
    with WorkProgress(quiet) as progress:
        progress.show("archiving", 0, total)
        archiver.run(lambda done: progress.show("archiving", done, total))
    if json_output:
        ends = [[w.topic, w.partition, w.start, w.end] for w in archiver.work]
        typer.echo(json.dumps({"archive": folder, "offsets": total, "ranges": ends}))
