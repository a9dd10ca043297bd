"""The per-user baseline on Spark: the same service, `transformWithState` keyed by the user.

A row for each event through shuffle and operator, state by the public calls, no buffer and no timers: less than the
job does, with the same source, steps, state entries and a transaction for each output partition. So the ratio is a
lower bound.
"""

from __future__ import annotations

import argparse
import json
import marshal
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from moneystate.engine.block import unpack
from moneystate.engine.effects import Effects
from moneystate.engine.items import NO_TIME
from moneystate.job.batch_writing import Report
from moneystate.job.run_options import RunOptions
from moneystate.runtime.job import job_spec
from moneystate.spark.job import Job
from moneystate.spark.jvm_start import ARROW_ROWS
from moneystate.spark.operator import KEY_SCHEMA, STATE_NAME, VALUE_SCHEMA
from moneystate.spark.running import Running
from moneystate.spark.source import OPTION, MoneystateSource
from moneystate.spark.state_access import PublicAccess
from tests.enrichment.jobs import SERVICE

ROW = pa.schema([("user", pa.binary()), ("item", pa.binary())])
RESULT = StructType([StructField("user", BinaryType()), StructField("value", BinaryType())])
ROWS_PER_BATCH = 10_000


class PerUser(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.entries = handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA)
        self.processor = job_spec(SERVICE, {}).make()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        items = sorted(marshal.loads(row.item) for row in rows)
        state = PublicAccess(self.entries)
        effects = Effects()
        parsed = self.processor.begin(state, items, [], NO_TIME)
        for item, work in zip(items, parsed, strict=True):
            self.processor.step(item, work, effects)
        state.apply(self.processor.finish(effects))
        for _, user, value, _ in effects.outputs:
            yield Row(user=user, value=value)

    def close(self) -> None:
        pass


def explode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blocks to a row for each event."""
    for batch in batches:
        for packed in batch.column(1):
            items = unpack(packed.as_py()).items
            users = pa.array([item[7] for item in items], pa.binary())
            rows = pa.array([marshal.dumps(item) for item in items], pa.binary())
            yield pa.RecordBatch.from_arrays([users, rows], schema=ROW)


def write(servers: str, topic: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One transaction for each output partition; gives how many were written."""
    context = TaskContext.get()
    assert context is not None
    settings = {"bootstrap.servers": servers, "linger.ms": 5, "compression.type": "lz4"}
    producer_settings = {"queue.buffering.max.messages": 500_000, "transactional.id": f"plain-{context.partitionId()}"}
    producer = Producer({**settings, **producer_settings})
    producer.init_transactions()
    producer.begin_transaction()
    written = 0
    for batch in batches:
        for user, value in zip(batch.column(0), batch.column(1), strict=True):
            producer.produce(topic, value.as_py(), user.as_py())
            written += 1
        producer.poll(0)
    producer.commit_transaction()
    yield pa.RecordBatch.from_arrays([pa.array([written])], names=["written"])


class PerUserJob(Job):
    """The job with its stateful part as in the per-user baseline."""

    outputs = 0

    @property
    def last(self) -> Report:
        return Report(outputs=self.outputs)

    def start(self, session: SparkSession) -> Running:
        session.conf.set(ARROW_ROWS, ROWS_PER_BATCH)
        session.dataSource.register(MoneystateSource)
        blocks = (
            session.readStream.format("moneystate").option(OPTION, self.specs.source(self.stop_file).to_json()).load()
        )
        events = blocks.mapInArrow(explode, "user binary, item binary")
        results = events.groupBy("user").transformWithState(PerUser(), RESULT, "Append", "None")
        writer = results.writeStream.foreachBatch(self._write).option("checkpointLocation", str(self.checkpoint.root))
        return Running(self, writer.trigger(availableNow=True).start())

    def _write(self, results: DataFrame, number: int) -> None:
        servers, topic = self.options.bootstrap_servers, self.options.topic_prefix + self.spec.streams[0]

        rows = results.mapInArrow(partial(write, servers, topic), "written long").collect()
        self.outputs += sum(row.written for row in rows)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--bootstrap-servers", required=True)
    p.add_argument("--topic-prefix", required=True)
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-plain-") as folder:
        options = RunOptions(a.bootstrap_servers, f"{folder}/checkpoint", a.topic_prefix, bounded=True)
        job = PerUserJob(job_spec(SERVICE, {}), options, lambda _: None)
        started = time.monotonic()
        report = job.run()
    if not report.outputs:
        raise RuntimeError("expected outputs of the per-user baseline, found none: was it the job that ran?")
    print(json.dumps({"outputs": report.outputs, "seconds": time.monotonic() - started}))
