"""`moneystate rescale`: takes a job to other key groups or partitions, with a short interruption."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import psutil
import pyarrow as pa
import typer
from pyspark.sql import SparkSession
from rich.console import Console

from moneystate.cli import facts_view
from moneystate.cli.flag_groups import KafkaFlags, SparkFlags
from moneystate.cli.option import PATH_OR_URI, Flags, Panel, check_given, option
from moneystate.cli.options import (
    BootstrapServers,
    CheckpointFolder,
    Json,
    Quiet,
    SameKeyGroups,
    SamePartitions,
    ServiceOfState,
)
from moneystate.cli.state_owner import service_of
from moneystate.cli.tables import print_fields
from moneystate.cli.work_progress import WorkProgress, counting
from moneystate.errors import InstanceError
from moneystate.kafka.transactions import Application
from moneystate.savepoint.manifest import Manifest
from state_tools.export import open_checkpoint
from state_tools.offline import session_for
from state_tools.rescaling import Rescaling, Target

POLL_S = 0.05
WAITING = "waiting for the job to end"


@dataclass(frozen=True)
class Surroundings(Flags):
    """The flags that do not say what to do."""

    kafka_flags: KafkaFlags
    spark_flags: SparkFlags
    service: ServiceOfState = ""
    json_output: Json = False
    quiet: Quiet = False


def rescale(
    checkpoint: CheckpointFolder,
    new_checkpoint: Annotated[
        str, option("new-checkpoint", "Folder of the checkpoint to make.", Panel.state, PATH_OR_URI)
    ],
    bootstrap_servers: BootstrapServers,
    flags: Surroundings,
    key_groups: SameKeyGroups = None,
    partitions: SamePartitions = None,
    stop: Annotated[
        bool, option("stop", "Stop the job (SIGTERM), if it runs on this machine, once everything is ready.", Panel.run)
    ] = False,
) -> None:
    """Give a job other key groups or partitions.

    The command makes a new checkpoint with the state of the old one, and prints how to start the job with it. Without
    --stop the job must have ended. The old checkpoint stays as it is. Whichever is started first goes on; the other is
    then refused.
    """
    check_given(checkpoint=checkpoint, new_checkpoint=new_checkpoint, bootstrap_servers=bootstrap_servers)
    spark_config = flags.spark_flags.configure()
    kafka = flags.kafka_flags.settings()
    service = service_of(checkpoint, flags.service)
    settings = open_checkpoint(checkpoint).settings()
    target = Target(new_checkpoint, key_groups or settings["key_groups"], partitions or settings["partitions"])
    rescaling = Rescaling(service, checkpoint, target, bootstrap_servers, kafka)
    rescaling.check()
    application = rescaling.application()
    if not stop:
        application.check_stopped()
    with session_for(rescaling.old, flags.spark_flags.master or None, spark_config) as session:
        if stop:
            if session is not None:
                _warm_up(session)
            _stop(application, flags.quiet)
        manifest = rescaling.run(session, lambda out, total: counting(out, total, flags.quiet))
        _tell(rescaling, manifest, flags.json_output)


def _warm_up(session: SparkSession) -> None:
    """Starts Spark's Python workers while the job still runs."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    session.range(session.sparkContext.defaultParallelism).mapInArrow(same, "id long").collect()


def _stop(application: Application, quiet: bool) -> None:
    """Raises InstanceError for a process of another user."""
    processes = application.processes()
    for process in processes:
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            raise InstanceError(
                f"process {process.pid}: expected to stop the job, but it belongs to another user.",
                "stop it, and run the command without --stop.",
            ) from None
    with WorkProgress(quiet) as progress:
        while left := sum(process.is_running() and not _is_zombie(process) for process in processes):
            progress.show(WAITING, len(processes) - left, len(processes))
            time.sleep(POLL_S)


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _tell(rescaling: Rescaling, manifest: Manifest, json_output: bool) -> None:
    target, entries = rescaling.target, sum(file.entries for file in manifest.state)
    size = sum(file.bytes for file in manifest.state)
    following = f"--checkpoint {target.checkpoint} --key-groups {target.key_groups} --partitions {target.partitions}"
    if json_output:
        about: dict[str, Any] = {"checkpoint": target.checkpoint, "key_groups": target.key_groups}
        about |= {"partitions": target.partitions, "entries": entries, "bytes": size, "next": following}
        typer.echo(json.dumps({**about, "fingerprint": manifest.fingerprint, **facts_view.time_ms(manifest.watermark)}))
        return
    values = {
        "checkpoint": target.checkpoint,
        "key groups": f"{rescaling.settings['key_groups']} -> {target.key_groups}",
        "partitions": f"{rescaling.settings['partitions']} -> {target.partitions}",
        "entries": f"{entries:,} ({size / 1e6:,.1f} MB)",
        "watermark": facts_view.time_text(manifest.watermark),
        "fingerprint": manifest.fingerprint,
        "next": f"start the job with its other flags and {following}",
    }
    print_fields(Console(highlight=False), values)
