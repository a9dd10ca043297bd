"""One small Spark session for each module, started as a job starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from services.spark.session import open_session

OUTPUT_PARTITIONS = 3


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session("tests", "local[2]", OUTPUT_PARTITIONS, {"spark.driver.memory": "1g"})
    try:
        yield session
    finally:
        session.stop()
