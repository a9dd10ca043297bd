"""Exports the checkpoint of a stopped job as a savepoint, with Spark tasks."""

from __future__ import annotations

import marshal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from moneystate.engine import clock as clocks
from moneystate.errors import CheckpointError, DrainedError, SavepointError
from moneystate.ports.state import StateModel
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import begin, check_free, finish, write_state
from moneystate.savepoint.manifest import EXPORT, ChangelogPosition, FileInfo, Manifest
from moneystate.savepoint.rescale import largest_bound_ms, rescaled, routed
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.jvm_start import ARROW_ROWS
from state_tools.entries import entry_rows

RESULT = pa.schema([("result", pa.binary())])
ROUTED = pa.schema([("grp", pa.int32()), ("source", pa.int32()), ("entry", pa.binary()), ("content", pa.binary())])
SUMMARY = b""  # no entry has this key
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
    session: SparkSession,
    state: StateModel,
    checkpoint: Checkpoint,
    out: Path,
    key_groups: int | None = None,
    changelog: ChangelogPosition | None = None,
) -> None:
    """Writes the state after the last finished batch as the savepoint `out`. Raises SavepointError if `out` exists, or
    if the result is not the same state.

    `key_groups`: of the savepoint; None: as in the checkpoint. Each core has the entries of one key group in memory.
    """
    settings = checkpoint.settings()
    old_key_groups = settings["key_groups"]
    key_groups = key_groups or old_key_groups
    last = checkpoint.last_committed()
    plan = checkpoint.offset(last)
    rules = checkpoint.rules(plan["rules"])
    check_free(out)
    folder = begin(out)
    session.conf.set(ARROW_ROWS, ROWS_PER_BATCH)
    rows = entry_rows(session, checkpoint.folder.address, old_key_groups, last)
    if key_groups == old_key_groups:
        groups = _write_groups(rows, state, folder, rules, key_groups)
    else:
        groups = _write_rescaled(rows, state, folder, rules, old_key_groups, key_groups)
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


class _Group(NamedTuple):
    """A summary of a written key group."""

    number: int
    file: FileInfo
    fingerprint: Fingerprint
    watermark: int
    counts: dict[str, int]
    expected: Fingerprint | None  # of the state that was read, if this group knows it

    def pack(self) -> bytes:
        users_buffer = (self.fingerprint.users, self.fingerprint.buffer)
        expected = None if self.expected is None else (self.expected.users, self.expected.buffer)
        return marshal.dumps((self.number, astuple(self.file), users_buffer, self.watermark, self.counts, expected))


def _unpack(packed: bytes) -> _Group:
    number, file, fingerprint, watermark, counts, expected = marshal.loads(packed)
    read = None if expected is None else Fingerprint(*expected)
    return _Group(number, FileInfo(*file), Fingerprint(*fingerprint), watermark, counts, read)


def _collected(written: DataFrame) -> list[_Group]:
    return sorted((_unpack(row.result) for row in written.collect()), key=lambda group: group.number)


def _arrow(group: _Group) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([group.pack()], pa.binary())], schema=RESULT)


def _placed(rows: DataFrame, key_groups: int, *columns: str) -> DataFrame:
    """The rows of each key group together, sorted by the columns."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    return rows.repartition(min(key_groups, 4 * cores), "grp").sortWithinPartitions("grp", *columns)


def _write_groups(
    rows: DataFrame, state: StateModel, folder: Path, rules: dict[str, Any], key_groups: int
) -> list[_Group]:
    """Writes the state files, in the key groups of the rows."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, group in groupby(_rows(batches), key=itemgetter(0)):
            yield _arrow(_written(folder, number, [(key, value) for _, key, value in group], state, rules))

    return _collected(_placed(rows, key_groups, "entry").mapInArrow(write, "result binary"))


def _written(
    folder: Path, number: int, entries: list[tuple[bytes, bytes]], state: StateModel, rules: dict[str, Any]
) -> _Group:
    clock = clocks.decode(next(value for key, value in entries if key == clocks.KEY))
    fingerprint = of_group(number, entries, state, rules)
    return _Group(
        number, write_state(folder, number, entries), fingerprint, clock.watermark, clock.counts, expected=None
    )


def _write_rescaled(
    rows: DataFrame, state: StateModel, folder: Path, rules: dict[str, Any], old: int, new: int
) -> list[_Group]:
    """Writes the state files in `new` key groups, from rows of `old` ones. Raises SavepointError.

    The summaries of all old groups go to new group 0, which has the counts of the whole.
    """
    bound_ms = largest_bound_ms(rules)

    def route(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group, whole in groupby(_rows(batches), key=itemgetter(0)):
            entries = sorted((key, value) for _, key, value in whole)
            clock = clocks.decode(next(value for key, value in entries if key == clocks.KEY))
            fingerprint = of_group(group, entries, state, rules)
            about = marshal.dumps((fingerprint.users, fingerprint.buffer, clock.counts))
            placed = [(0, SUMMARY, about), *routed(state, group, old, new, entries)]
            to, keys, values = zip(*placed, strict=True)
            columns = [pa.array(to, pa.int32()), pa.array([group] * len(to), pa.int32())]
            columns += [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=ROUTED)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, group in groupby(_rows(batches), key=itemgetter(0)):
            by_old: defaultdict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
            counts: Counter[str] = Counter()
            expected = Fingerprint() if number == 0 else None
            for _, source, key, value in group:
                if key != SUMMARY:
                    by_old[source].append((key, value))
                    continue
                users, buffer, its_counts = marshal.loads(value)
                counts.update(its_counts)
                expected = (expected or Fingerprint()) + Fingerprint(users, buffer)
            entries = rescaled(state, number, new, by_old.__getitem__, old, bound_ms, dict(counts))
            yield _arrow(_written(folder, number, entries, state, rules)._replace(expected=expected))

    routed_rows = rows.mapInArrow(route, "grp int, source int, entry binary, content binary")
    groups = _collected(_placed(routed_rows, new, "source", "entry").mapInArrow(write, "result binary"))
    total = sum([group.fingerprint for group in groups], Fingerprint())
    if total != groups[0].expected:
        raise SavepointError(
            f"{folder}: expected the fingerprint {groups[0].expected} of the checkpoint's state, found {total} in "
            f"{new} key groups.",
            "report this, and keep the checkpoint.",
        )
    return groups


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from zip(*columns, strict=True)
