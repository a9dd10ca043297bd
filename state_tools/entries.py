"""The entries in a checkpoint's state store, read offline with Spark's state data source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from services.spark.operator import STATE_NAME


class Entry(NamedTuple):
    key_group: int
    key: bytes
    value: bytes


def read_entries(session: SparkSession, checkpoint: Path, key_groups: int, batch: int | None = None) -> Iterator[Entry]:
    """All entries as `entry_rows` has them, one after the other."""
    for row in entry_rows(session, checkpoint, key_groups, batch).toLocalIterator():
        yield Entry(row.grp, bytes(row.entry), bytes(row.content))


def entry_rows(session: SparkSession, checkpoint: Path, key_groups: int, batch: int | None = None) -> DataFrame:
    """All entries after `batch` (the newest if None), in no order: grp, entry, content. The checkpoint is only read.

    `key_groups`: as in the checkpoint's settings; a key group's number is its key in Spark's state modulo that
    (`services.spark.placement`).
    """
    # in a session that has run no stream the state data source does not find its coordinator until this was touched
    _ = session.streams.active
    reader = session.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", STATE_NAME)
    if batch is not None:
        reader = reader.option("batchId", batch)
    return reader.load().selectExpr(
        f"key.key % {key_groups} AS grp", "user_map_key.entry AS entry", "user_map_value.content AS content"
    )
