"""Makes the archive of `moneystate/spark/class_archive.py`: `python -m moneystate.spark.jvm.make_class_archive`.

A short run loads what a job loads: a session, a streaming query with a Python source, state and foreachBatch. It is a
comfort: where it cannot be made, the exit code is 1 with a line that says why, and everything works without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from moneystate.devbroker.java import find_java
from moneystate.job.local_path import spark_path
from moneystate.spark.class_archive import MAKE, USE, archive_file, earlier_archives
from moneystate.spark.jvm.classes import our_jar
from moneystate.spark.jvm_start import DEFAULTS, JAVA_OPTIONS
from moneystate.spark.operator import KEY_SCHEMA, RESULT_SCHEMA, STATE_NAME, VALUE_SCHEMA
from moneystate.spark.session import open_session, use_our_checkpoint_files
from moneystate.spark.state_access import stores_of

QUERY_S = 120  # two batches take 5 to 10 s
EXIT_S = 60.0  # the JVM writes the archive when it ends: 5 to 10 s
BATCHES = 2


class Reader(DataSourceStreamReader):
    """Offers a row in each of two batches."""

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        self.n = min(getattr(self, "n", 0) + 1, BATCHES)
        return {"n": self.n}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(end["n"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"key": pa.array([1], pa.int32()), "block": pa.array([b"block"])})


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "moneystate-archive"

    def schema(self) -> str:
        return "key int, block binary"

    def streamReader(self, schema: Any) -> Reader:
        return Reader()


class Operator(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.entries = handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        blocks = b"".join(bytes(row.block) for row in rows)
        state = stores_of(self.entries).store(int(key[0]))
        state.get_many([b"key"])
        state.apply([(b"key", blocks)])
        yield Row(result=blocks)

    def close(self) -> None:
        pass


def run_query(session: SparkSession, folder: Path) -> None:
    session.dataSource.register(Source)
    blocks = session.readStream.format(Source.name()).load()
    results = blocks.groupBy("key").transformWithState(Operator(), RESULT_SCHEMA, "Append", "None")
    done: list[int] = []
    query = results.writeStream.foreachBatch(lambda frame, number: done.append(sink(frame, number)))
    running = query.option("checkpointLocation", spark_path(folder / "checkpoint")).start()
    for _ in range(QUERY_S):
        if len(done) >= BATCHES or running.awaitTermination(1):
            break
    running.stop()


def sink(frame: DataFrame, number: int) -> int:
    frame.mapInArrow(lambda batches: batches, frame.schema).collect()
    return number


def end_jvm() -> None:
    """It ends when its standard input does, and writes the archive then."""
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.stdin.close()
    try:
        process.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def make(java: Path, file: Path) -> None:
    """Makes the archive. If two processes make it at once, the later one replaces the other's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{file.name}-", dir=file.parent))
    try:
        made = folder / file.name
        options = f"{DEFAULTS[JAVA_OPTIONS]} {MAKE.format(made)}"
        session = open_session("archive", "local[2]", 1, {JAVA_OPTIONS: options}, folder / "driver.log")
        use_our_checkpoint_files(session)
        try:
            run_query(session, folder)
        finally:
            session.stop()
            end_jvm()
        check_whole(java, made)
        made.replace(file)
        for old in earlier_archives(file):
            old.unlink(missing_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_whole(java: Path, made: Path) -> None:
    """Java passes over an archive of another Java or class path, but one that is cut off kills it (seen with 17). So it
    has to start with this one, and it has to be on disk before it gets its name."""
    start = [str(java), *USE.format(made).split(), "-version"]
    subprocess.run(start, stdin=subprocess.DEVNULL, capture_output=True, check=True, cwd=made.parent)
    with made.open("rb") as content:
        os.fsync(content.fileno())


def main() -> int:
    try:
        java = find_java()
        file = archive_file(java, our_jar(java))
        if not file.exists():
            make(java, file)
    except Exception as error:  # whatever it is: nothing needs the archive
        print(f"no class archive, Spark will start more slowly: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
