"""The Spark data source `moneystate`: plans batches of Kafka records and reads them as blocks (docs/model.md
section 5).

Planning runs in its own process beside the driver (`KafkaStreamReader`, with `moneystate.kafka.planner`). Reading runs
in the tasks' Python workers and gives one row for each key group: the group's key, its block, and for the metrics how
long the task took to read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from moneystate.engine import plan as plans
from moneystate.job.source_reading import TaskRead, plan_reads, read_blocks
from moneystate.kafka.convert import converters
from moneystate.kafka.planner import Planner
from moneystate.kafka.source_spec import SourceSpec, load_decoder, source_spec
from moneystate.spark.placement import first_groups, placed_keys
from moneystate.stop_signals import leave_stop_signals

SCHEMA = "key int, block binary, source_ms int"
ARROW_SCHEMA = pa.schema([("key", pa.int32()), ("block", pa.binary()), ("source_ms", pa.int32())])
OPTION = "spec"
ARROW_BYTES = 512 * 1024 * 1024  # of blocks in one Arrow batch, which holds 2 GiB at most


class TaskPlan(InputPartition):
    """Holds what one task reads, as Spark hands it over."""

    def __init__(self, reads: TaskRead) -> None:
        super().__init__(reads.task)
        self.reads = reads


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "_planner": None}  # connections cannot be sent to tasks

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            s = self.spec
            converts = converters(s.formats, s.inputs, s.registry_url, id_wait_s=0.0, service=s.service)
            self._planner = Planner(s, load_decoder(s.decoder), converts)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self.spec.start

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()  # the planner sets the limit, because it depends on event time

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self.planner.next_offset(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [TaskPlan(read) for read in plan_reads(plans.from_offset(start), plans.from_offset(end), self.spec)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPlan)
        begun = time.monotonic()
        keys = placed_keys(self.spec.key_groups, self.spec.output_partitions)
        blocks = read_blocks(self.spec, partition.reads, first_groups(keys, self.spec.output_partitions))
        took_ms = round((time.monotonic() - begun) * 1000)
        yield from arrow_batches(keys, blocks, took_ms)


def arrow_batches(keys: Sequence[int], blocks: Sequence[bytes], took_ms: int) -> Iterator[pa.RecordBatch]:
    """All rows in one batch, unless they are larger than `ARROW_BYTES`."""
    first, size = 0, 0
    for end, block in enumerate(blocks):
        if size + len(block) > ARROW_BYTES and end > first:
            yield _arrow_batch(keys[first:end], blocks[first:end], took_ms)
            first, size = end, 0
        size += len(block)
    yield _arrow_batch(keys[first:], blocks[first:], took_ms)


def _arrow_batch(keys: Sequence[int], blocks: Sequence[bytes], took_ms: int) -> pa.RecordBatch:
    columns = [pa.array(keys, pa.int32()), pa.array(blocks, pa.binary()), pa.array([took_ms] * len(keys), pa.int32())]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


class MoneystateSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "moneystate"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Spark calls this in the process beside the driver that plans. A service manager signals that, too; the driver
        ends it by closing its connection, once the batch is finished."""
        leave_stop_signals()
        return KafkaStreamReader(source_spec(self.options[OPTION]))
