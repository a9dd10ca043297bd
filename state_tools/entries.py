"""Reads the entries of a stopped job's checkpoint with Spark's state data source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from moneystate.engine.segments import entries_of
from moneystate.job.local.store import LocalStore, store_of
from moneystate.spark.operator import STATE_NAME

SCHEMA = "grp int, entry binary, content binary"


class Entry(NamedTuple):
    key_group: int
    key: bytes
    value: bytes


def read_entries(
    session: SparkSession, checkpoint: str, key_groups: int, batch: int | None = None, kind: bytes = b""
) -> Iterator[Entry]:
    """All entries (`entry_rows`). With `kind`: only those whose keys start with it."""
    rows = entry_rows(session, checkpoint, key_groups, batch)
    if kind:
        rows = rows.where(f"startswith(entry, X'{kind.hex()}')")
    for row in rows.toLocalIterator():
        yield Entry(row.grp, bytes(row.entry), bytes(row.content))


def count_schemas(
    session: SparkSession, checkpoint: str, key_groups: int, batch: int | None = None
) -> dict[tuple[str, str], int]:
    """The number of entries by kind (the first letter of the key) and schema fingerprint (hex)."""
    kinds = entry_rows(session, checkpoint, key_groups, batch).selectExpr(
        "cast(substring(entry, 1, 1) as string) AS kind", "lower(hex(substring(content, 3, 8))) AS schema"
    )
    return {(row.kind, row.schema): row["count"] for row in kinds.groupBy("kind", "schema").count().collect()}


def entry_rows(
    session: SparkSession, checkpoint: str, key_groups: int, batch: int | None = None, group: int | None = None
) -> DataFrame:
    """All entries as of the end of `batch` (None: the newest), unordered, with the columns grp, entry, content.

    `checkpoint`: its address, with the scheme. `key_groups`: from its settings. `group`: only this key group, whose
    number is its key in Spark's state modulo `key_groups` (`moneystate.spark.placement`). The entries of a key group
    must fit into memory. The checkpoint is not changed.
    """
    local = store_of(checkpoint)
    if local is not None:
        return _of_local_run(session, local, group)
    # Without this access, the state data source fails in a session that has not run a stream: it does not find its
    # coordinator.
    _ = session.streams.active
    reader = session.read.format("statestore").option("path", checkpoint).option("stateVarName", STATE_NAME)
    if batch is not None:
        reader = reader.option("batchId", batch)
    stored = reader.load().selectExpr(
        f"key.key % {key_groups} AS grp", "user_map_key.entry AS entry", "user_map_value.content AS content"
    )
    if group is not None:
        stored = stored.where(stored.grp == group)
    return stored.groupBy("grp").applyInArrow(_entries, SCHEMA)


def _of_local_run(session: SparkSession, folder: Path, group: int | None) -> DataFrame:
    """The rows of a key group are together, as those of Spark's state are."""
    with LocalStore(folder, read_only=True) as store:
        entries = [entry for entry in store.entries() if group is None or entry[0] == group]
    groups, keys, values = ([entry[n] for entry in entries] for n in range(3))
    columns = [pa.array(groups, pa.int32()), pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    rows = session.createDataFrame(pa.Table.from_arrays(columns, names=["grp", "entry", "content"]))
    return rows.repartition("grp").sortWithinPartitions("grp")


def _entries(stored: pa.Table) -> pa.Table:
    """A key group's entries, read from its segments."""
    entries = entries_of(
        dict(zip(stored.column("entry").to_pylist(), stored.column("content").to_pylist(), strict=True))
    )
    columns = [pa.array([group] * len(entries), pa.int32()) for group in stored.column("grp")[:1].to_pylist()]
    columns += [pa.array(list(entries), pa.binary()), pa.array(list(entries.values()), pa.binary())]
    return pa.Table.from_arrays(columns, names=["grp", "entry", "content"])
