"""One small Spark session for each module, started as a job starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from moneystate.spark.session import open_session, use_our_checkpoint_files

OUTPUT_PARTITIONS = 3


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    memory = {"spark.driver.memory": "1g"}
    session = open_session("tests", "local[2]", OUTPUT_PARTITIONS, memory)
    use_our_checkpoint_files(session)
    try:
        yield session
    finally:
        session.stop()
