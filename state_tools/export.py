"""Exports the checkpoint of a stopped job as a savepoint, with Spark tasks."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from moneystate.engine import clock as clocks
from moneystate.errors import CheckpointError, DrainedError
from moneystate.ports.state import StateModel
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import begin, check_free, finish, write_state
from moneystate.savepoint.manifest import EXPORT, FileInfo, Manifest
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.session import ARROW_ROWS
from state_tools.entries import entry_rows

RESULT = pa.schema([("result", pa.binary())])
ROWS_PER_BATCH = "2000"  # entries are far smaller than the blocks of a running job


def open_checkpoint(folder: str) -> Checkpoint:
    """Opens a checkpoint that has state. Raises CheckpointError."""
    checkpoint = Checkpoint(folder)
    if checkpoint.is_new():
        actual = "a folder without one" if checkpoint.folder.exists() else "no such path"
        raise CheckpointError(f"{folder}: expected a checkpoint, found {actual}.", "give the job's --checkpoint.")
    checkpoint.check_version()
    if checkpoint.last_committed() < 0:
        raise CheckpointError(
            f"{folder}: expected a checkpoint with a finished batch, found none.", "run the job first."
        )
    return checkpoint


def check_can_go_on(checkpoint: Checkpoint) -> None:
    """Raises CheckpointError if a job must not be started from this state."""
    if checkpoint.planned_rules() is not None:
        raise CheckpointError(
            f"{checkpoint.root}: expected all planned batches to be finished, batch {checkpoint.last_planned()} is "
            "not: parts of it may be in Kafka.",
            "stop the job and run moneystate enrich --finish-batch, then export.",
        )
    if checkpoint.offset(checkpoint.last_committed())["drain"]:
        raise DrainedError(
            f"{checkpoint.root}: expected a checkpoint that can go on, found one ended by --drain.",
            "bootstrap from the logs instead.",
        )


def export(session: SparkSession, state: StateModel, checkpoint: Checkpoint, out: Path) -> None:
    """Writes the state after the last finished batch as the savepoint `out`. Raises SavepointError if `out` exists.

    Each core has the entries of one key group in memory.
    """
    settings = checkpoint.settings()
    last = checkpoint.last_committed()
    plan = checkpoint.offset(last)
    rules = checkpoint.rules(plan["rules"])
    check_free(out)
    groups = _write_groups(session, state, checkpoint, begin(out), rules)
    counts: dict[str, int] = {}
    for group in groups:
        for name, n in group["counts"].items():
            counts[name] = counts.get(name, 0) + n
    total = sum([Fingerprint(*group["fingerprint"]) for group in groups], Fingerprint())
    manifest = Manifest(
        made_by=EXPORT,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        job=settings["job"],
        schemas=state.versions.schemas(),
        rules=rules,
        key_groups=settings["key_groups"],
        partitions=settings["partitions"],
        plan=plan,
        watermark=groups[0]["watermark"],
        counts=counts,
        fingerprint=str(total),
        state=[FileInfo(*group["file"]) for group in groups],
        origins=[*checkpoint.start()["superseded"], str(checkpoint.epoch())],
        origin_batch=last + 1,
    )
    finish(out, manifest)


def _write_groups(
    session: SparkSession, state: StateModel, checkpoint: Checkpoint, folder: Path, rules: dict[str, Any]
) -> list[Any]:
    """Writes the state files. Returns a summary of each key group, ordered by number."""
    key_groups = checkpoint.settings()["key_groups"]
    session.conf.set(ARROW_ROWS, ROWS_PER_BATCH)
    rows = entry_rows(session, checkpoint.folder.address, key_groups, checkpoint.last_committed())
    cores = session.sparkContext.defaultParallelism
    placed = rows.repartition(min(key_groups, 4 * cores), "grp").sortWithinPartitions("grp", "entry")

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, group in groupby(_rows(batches), key=lambda row: row[0]):
            entries = [(key, value) for _, key, value in group]
            clock = clocks.decode(next(value for key, value in entries if key == clocks.KEY))
            written = write_state(folder, number, entries)
            fingerprint = of_group(number, entries, state, rules)
            result = {
                "group": number,
                "file": (written.name, written.entries, written.bytes, written.sha256),
                "fingerprint": (fingerprint.users, fingerprint.buffer),
                "watermark": clock.watermark,
                "counts": clock.counts,
            }
            yield pa.RecordBatch.from_arrays([pa.array([marshal.dumps(result)], pa.binary())], schema=RESULT)

    results = [marshal.loads(row.result) for row in placed.mapInArrow(write, "result binary").collect()]
    return sorted(results, key=lambda result: result["group"])


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes, bytes]]:
    for batch in batches:
        columns = [batch.column(n).to_pylist() for n in range(3)]
        yield from zip(*columns, strict=True)
