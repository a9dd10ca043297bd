"""Exports the checkpoint of a stopped job as a savepoint: with Spark tasks, or in this process after a local run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from moneystate.errors import CheckpointError, DrainedError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.local.store import LocalStore, store_of
from moneystate.ports.state import StateModel
from moneystate.savepoint.fingerprint import Fingerprint
from moneystate.savepoint.format import begin, check_free, finish
from moneystate.savepoint.manifest import EXPORT, ChangelogPosition, Manifest
from moneystate.spark.jvm_start import ARROW_ROWS
from state_tools.entries import entry_rows
from state_tools.exported_group import Group, GroupWriter, unpack

RESULT = pa.schema([("result", pa.binary())])
ROUTED = pa.schema([("grp", pa.int32()), ("source", pa.int32()), ("entry", pa.binary()), ("content", pa.binary())])
ROWS_PER_BATCH = "2000"  # entries are far smaller than the blocks of a running job


FINISH_FIRST = "finish it first: start the job as before with --finish-batch, with the program that planned it."


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
            FINISH_FIRST,
        )
    if checkpoint.offset(checkpoint.last_committed())["drain"]:
        raise DrainedError(
            f"{checkpoint.root}: expected a checkpoint that can go on, found one ended by --drain.",
            "bootstrap from the logs instead.",
        )


def export(
    session: SparkSession | None,
    state: StateModel,
    checkpoint: Checkpoint,
    out: Path,
    key_groups: int | None = None,
    changelog: ChangelogPosition | None = None,
) -> None:
    """Writes the state after the last finished batch as the savepoint `out`. Raises SavepointError if `out` exists, or
    if the result is not the same state.

    `session`: None for a checkpoint of a local run, which is then exported in this process. `key_groups`: of the
    savepoint; None: as in the checkpoint. Each core has the entries of one key group in memory.
    """
    settings = checkpoint.settings()
    old_key_groups = settings["key_groups"]
    key_groups = key_groups or old_key_groups
    last = checkpoint.last_committed()
    plan = checkpoint.offset(last)
    rules = checkpoint.rules(plan["rules"])
    check_free(out)
    folder = begin(out)
    groups = _written(session, checkpoint, GroupWriter(state, folder, rules, old_key_groups, key_groups))
    counts: dict[str, int] = {}
    for group in groups:
        for name, n in group.counts.items():
            counts[name] = counts.get(name, 0) + n
    total = sum([group.fingerprint for group in groups], Fingerprint())
    manifest = Manifest(
        made_by=EXPORT,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        job=settings["job"],
        schemas=state.versions.schemas(),
        rules=rules,
        key_groups=key_groups,
        partitions=settings["partitions"],
        plan=plan,
        watermark=groups[0].watermark,
        counts=counts,
        fingerprint=str(total),
        state=[group.file for group in groups],
        origins=[*checkpoint.start()["superseded"], str(checkpoint.epoch())],
        origin_batch=last + 1,
        changelog=changelog,
    )
    finish(out, manifest)


def _written(session: SparkSession | None, checkpoint: Checkpoint, writer: GroupWriter) -> list[Group]:
    """Raises SavepointError."""
    address = checkpoint.folder.address
    if session is None:
        store = store_of(address)
        assert store is not None
        groups = _of_local_run(store, writer)
    else:
        session.conf.set(ARROW_ROWS, ROWS_PER_BATCH)
        rows = entry_rows(session, address, writer.old, checkpoint.last_committed())
        groups = _write_groups(rows, writer) if writer.new == writer.old else _write_rescaled(rows, writer)
    if writer.new != writer.old:
        writer.check(groups)
    return groups


def _collected(written: DataFrame) -> list[Group]:
    return sorted((unpack(row.result) for row in written.collect()), key=lambda group: group.number)


def _arrow(group: Group) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([group.pack()], pa.binary())], schema=RESULT)


def _placed(rows: DataFrame, key_groups: int, *columns: str) -> DataFrame:
    """The rows of each key group together, sorted by the columns."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    return rows.repartition(min(key_groups, 4 * cores), "grp").sortWithinPartitions("grp", *columns)


def _write_groups(rows: DataFrame, writer: GroupWriter) -> list[Group]:
    """Writes the state files, in the key groups of the rows."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, group in groupby(_rows(batches), key=itemgetter(0)):
            yield _arrow(writer.write(number, [(key, value) for _, key, value in group]))

    return _collected(_placed(rows, writer.new, "entry").mapInArrow(write, "result binary"))


def _write_rescaled(rows: DataFrame, writer: GroupWriter) -> list[Group]:
    """Writes the state files in new key groups. Raises SavepointError."""

    def route(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group, whole in groupby(_rows(batches), key=itemgetter(0)):
            to, keys, values = zip(*writer.route(group, sorted((key, value) for _, key, value in whole)), strict=True)
            columns = [pa.array(to, pa.int32()), pa.array([group] * len(to), pa.int32())]
            columns += [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=ROUTED)

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, group in groupby(_rows(batches), key=itemgetter(0)):
            yield _arrow(writer.merge(number, (row[1:] for row in group)))

    routed_rows = rows.mapInArrow(route, "grp int, source int, entry binary, content binary")
    return _collected(_placed(routed_rows, writer.new, "source", "entry").mapInArrow(merge, "result binary"))


def _of_local_run(store: Path, writer: GroupWriter) -> list[Group]:
    """As Spark's tasks do it, in this process. Without rescaling, it has one key group in memory, otherwise all."""
    with LocalStore(store, read_only=True) as opened:
        groups = (
            (number, [(key, value) for _, key, value in entries])
            for number, entries in groupby(opened.entries(), key=itemgetter(0))
        )
        if writer.new == writer.old:
            return [writer.write(number, entries) for number, entries in groups]
        rows: defaultdict[int, list[tuple[int, bytes, bytes]]] = defaultdict(list)
        for number, entries in groups:
            for to, key, value in writer.route(number, entries):
                rows[to].append((number, key, value))
    return [writer.merge(number, sorted(rows.pop(number))) for number in range(writer.new)]


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from zip(*columns, strict=True)
