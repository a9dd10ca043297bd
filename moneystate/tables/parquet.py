"""Rows of Parquet, by chunks. Its columns have types of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from moneystate.tables.columns import Declared
from moneystate.tables.rows import Read
from moneystate.tables.source import CHUNK
from moneystate.tables.typed_rows import TypedRows


def read_parquet(file: BinaryIO, declared: Declared, where: str) -> Iterator[Read]:
    """Raises SourceError for columns that do not fit, and pyarrow's errors for a file that is none."""
    content = pq.ParquetFile(file)
    rows = TypedRows(content.schema_arrow.names, declared, where)
    for batch in content.iter_batches(batch_size=CHUNK):
        columns: list[list[Any]] = [column.to_pylist(maps_as_pydicts="strict") for column in batch.columns]
        yield from map(rows.row, zip(*columns, strict=True))
