"""`moneystate archive`: copies topics into files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from moneystate.bootstrap.archive import ArchiveOptions, Archiver
from moneystate.cli import services
from moneystate.cli.flag_groups import ClusterFlags, FormatFlags, StoreFlags
from moneystate.cli.option import NUMBER, PATH_OR_URI, Flags, Panel, filled, flag, option
from moneystate.cli.options import AsOf, GivenService, InitialHighs, Json, Quiet, StartingOffsets
from moneystate.cli.work_progress import WorkProgress
from moneystate.kafka.source_spec import load_decoder
from moneystate.runtime.job import service_spec


class FileFormat(StrEnum):
    avro = "avro"
    parquet = "parquet"
    jsonl = "jsonl"


@dataclass(frozen=True)
class ArchiveFlags(Flags):
    archive: Annotated[
        str, option("archive", "Folder of the archive; an existing archive is resumed.", Panel.state, PATH_OR_URI)
    ]
    cluster: ClusterFlags
    service: GivenService
    format_flags: FormatFlags
    store_flags: StoreFlags
    starting_offsets: StartingOffsets = "earliest"
    as_of: AsOf = "end"
    initial_highs: InitialHighs = None
    records_per_file: int = flag(100_000, "Most offsets in one file.", Panel.state, NUMBER, least=1)
    file_format: FileFormat = flag(FileFormat.avro, "Format of the files.", Panel.state)
    json_output: Json = False
    quiet: Quiet = False


def archive(context: typer.Context, flags: ArchiveFlags) -> None:
    """Write the job's input topics into files.

    bootstrap reads them. The same command resumes an archive that was stopped.
    """
    spec = service_spec(services.chosen(context, flags.service))
    flags.store_flags.configure()
    job = spec.job({})
    options = filled(
        ArchiveOptions,
        flags,
        out=flags.archive,
        file_format=flags.file_format.value,
        formats=flags.format_flags.by_topic(spec.formatted, spec.formats, spec.decoded),
        registry_url=flags.format_flags.schema_registry or None,
        kafka_config=flags.cluster.settings(),
        service=job.service,
    )
    archiver = Archiver(options, job.inputs, load_decoder(job.decoder))
    total = archiver.total()
    with WorkProgress(flags.quiet) as progress:
        progress.show("archiving", 0, total)
        archiver.run(lambda done: progress.show("archiving", done, total))
    if flags.json_output:
        ends = [[w.topic, w.partition, w.start, w.end] for w in archiver.work]
        typer.echo(json.dumps({"archive": flags.archive, "offsets": total, "ranges": ends}))
