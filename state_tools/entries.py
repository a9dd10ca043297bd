"""Reads the entries of a checkpoint offline, from the segments in its state store, with Spark's state data source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from moneystate.engine.segments import entries_of
from moneystate.spark.local_path import spark_path
from moneystate.spark.operator import STATE_NAME

SCHEMA = "grp int, entry binary, content binary"


class Entry(NamedTuple):
    key_group: int
    key: bytes
    value: bytes


def read_entries(
    session: SparkSession, checkpoint: Path, key_groups: int, batch: int | None = None, kind: bytes = b""
) -> Iterator[Entry]:
    """All entries in the form of `entry_rows`, one after the other. With `kind`: those whose keys start with it."""
    rows = entry_rows(session, checkpoint, key_groups, batch)
    if kind:
        rows = rows.where(f"startswith(entry, X'{kind.hex()}')")
    for row in rows.toLocalIterator():
        yield Entry(row.grp, bytes(row.entry), bytes(row.content))


def count_schemas(
    session: SparkSession, checkpoint: Path, key_groups: int, batch: int | None = None
) -> dict[tuple[str, str], int]:
    """How many entries there are by kind (the first letter of the key) and fingerprint of their schema (hex)."""
    kinds = entry_rows(session, checkpoint, key_groups, batch).selectExpr(
        "cast(substring(entry, 1, 1) as string) AS kind", "lower(hex(substring(content, 3, 8))) AS schema"
    )
    return {(row.kind, row.schema): row["count"] for row in kinds.groupBy("kind", "schema").count().collect()}


def entry_rows(
    session: SparkSession, checkpoint: Path, key_groups: int, batch: int | None = None, group: int | None = None
) -> DataFrame:
    """All entries after `batch` (the newest if None), in no order: grp, entry, content. The checkpoint is only read.

    `key_groups`: as in the checkpoint's settings; a key group's number is its key in Spark's state modulo that
    (`moneystate.spark.placement`). `group`: of this one alone. A key group's entries have to fit into memory.
    """
    # in a session that has run no stream the state data source does not find its coordinator until this was touched
    _ = session.streams.active
    reader = session.read.format("statestore").option("path", spark_path(checkpoint)).option("stateVarName", STATE_NAME)
    if batch is not None:
        reader = reader.option("batchId", batch)
    stored = reader.load().selectExpr(
        f"key.key % {key_groups} AS grp", "user_map_key.entry AS entry", "user_map_value.content AS content"
    )
    if group is not None:
        stored = stored.where(stored.grp == group)
    return stored.groupBy("grp").applyInArrow(_entries, SCHEMA)


def _entries(stored: pa.Table) -> pa.Table:
    """A key group's entries, from its segments."""
    entries = entries_of(
        dict(zip(stored.column("entry").to_pylist(), stored.column("content").to_pylist(), strict=True))
    )
    columns = [pa.array([group] * len(entries), pa.int32()) for group in stored.column("grp")[:1].to_pylist()]
    columns += [pa.array(list(entries), pa.binary()), pa.array(list(entries.values()), pa.binary())]
    return pa.Table.from_arrays(columns, names=["grp", "entry", "content"])
