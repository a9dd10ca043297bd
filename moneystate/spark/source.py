"""The Spark data source `moneystate`: plans batches of Kafka records and reads them as blocks (DESIGN.md section 5).

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
from moneystate.engine.inputs import Inputs
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import NO_TIME
from moneystate.kafka.client import letter_of
from moneystate.kafka.convert import converters
from moneystate.kafka.planner import Planner
from moneystate.kafka.ranges import Range, cached_reader, discard_readers
from moneystate.kafka.source_spec import SourceSpec, load_decoder, source_spec
from moneystate.spark.collector import no_collection
from moneystate.spark.placement import first_groups, placed_keys
from moneystate.stop_signals import leave_stop_signals

SCHEMA = "key int, block binary, source_ms int"
ARROW_SCHEMA = pa.schema([("key", pa.int32()), ("block", pa.binary()), ("source_ms", pa.int32())])
OPTION = "spec"
ARROW_BYTES = 512 * 1024 * 1024  # of blocks in one Arrow batch, which holds 2 GiB at most


# topic, partition, start, end, whether it holds the watermark (1), clock as in a mark, loaded as in `PlannedPartition`
PlannedRange = tuple[str, int, int, int, int, int, int]


class TaskPlan(InputPartition):
    """What one task of `tasks` reads."""

    def __init__(
        self,
        task: int,
        tasks: int,
        drain_to: int,
        ranges: list[PlannedRange],
        rewrite: tuple[int, int, int] | None,
    ) -> None:
        super().__init__(task)
        self.task = task
        self.tasks = tasks
        self.drain_to = drain_to  # as in `order.advance`
        self.ranges = ranges
        self.rewrite = rewrite  # (share, shares, version) of a batch that rewrites state; None: the batch reads


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
            converts = converters(s.formats, s.inputs, s.registry_url, id_wait_s=0.0, schemas=s.schemas)
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
        return plan_tasks(plans.from_offset(start), plans.from_offset(end), self.spec)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPlan)
        begun = time.monotonic()
        keys = placed_keys(self.spec.key_groups, self.spec.output_partitions)
        blocks = read_blocks(self.spec, partition, first_groups(keys, self.spec.output_partitions))
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


def plan_tasks(start: plans.Plan, end: plans.Plan, spec: SourceSpec) -> list[TaskPlan]:
    """Spreads the batch's partitions over a few tasks: the largest range first, to the least loaded task."""
    tasks = max(1, min(spec.source_tasks, len(end.partitions)))
    loads = [0] * tasks
    inputs = Inputs(spec.inputs)
    ranges: list[list[PlannedRange]] = [[] for _ in range(tasks)]

    def begin(tp: plans.TopicPartition) -> int:
        # a partition that is new in this plan has no start yet: this batch reads nothing of it
        known = start.partitions.get(tp)
        return end.partitions[tp].end if known is None else known.end

    for tp, planned in sorted(end.partitions.items(), key=lambda kv: (begin(kv[0]) - kv[1].end, kv[0])):
        task = loads.index(min(loads))
        loads[task] += planned.end - begin(tp) + 1
        holds = 0 if planned.state == plans.IDLE else 1
        clock = NO_TIME if planned.clock_ms is None else planned.clock_ms
        ranges[task].append((*tp, begin(tp), planned.end, holds, clock, inputs.loaded(tp[0], planned.loaded)))
    r = end.rewrite
    rewrite = None if r is None else (r.share, r.shares, r.version)
    return [TaskPlan(task, tasks, end.drain_to(), mine, rewrite) for task, mine in enumerate(ranges)]


def read_blocks(spec: SourceSpec, plan: TaskPlan, marked: set[int]) -> list[bytes]:
    """Reads one task's records. Returns packed blocks, one for each key group. Those of the key groups in `marked` have
    the marks."""
    intake = open_intake(spec, plan)
    with no_collection():
        take_in(intake, spec, plan.task, plan.ranges)
        return intake.close(marked)


def open_intake(spec: SourceSpec, plan: TaskPlan) -> Intake:
    decoder = load_decoder(spec.decoder)
    converts = converters(spec.formats, spec.inputs, spec.registry_url, schemas=spec.schemas)
    inputs = Inputs(spec.inputs)
    intake = Intake(
        decoder,
        spec.inputs,
        [PlannedPartition(*inputs.place((r[0], r[1])), r[4], r[5], r[3], r[6]) for r in plan.ranges],
        spec.key_groups,
        spec.bound_ms,
        spec.max_future_ms,
        spec.dead_letter_stream,
        converts,
        spec.max_record_bytes,
        decoder.reads(spec.formats, converts),
        decoder.values(spec.formats),
    )
    rewrite = None if plan.rewrite is None else plans.Rewrite(*plan.rewrite)
    intake.open(plan.task, plan.tasks, plan.drain_to, rewrite)
    return intake


def take_in(intake: Intake, spec: SourceSpec, slot: int, planned: list[PlannedRange]) -> None:
    """Reads the records of the planned ranges with this process's reader number `slot`."""
    inputs = Inputs(spec.inputs)
    topics = {spec.topic(topic): (*inputs.first(topic), inputs.name(topic)) for topic, *_ in planned}
    reader = cached_reader(spec.bootstrap_servers, spec.extra, spec.group, slot, len(planned))
    ranges = [Range(spec.topic(topic), partition, start, end) for topic, partition, start, end, *_ in planned]
    whole = intake.reads
    try:
        for message in reader.read(ranges):
            code, first, name = topics[message.topic()]
            if code in whole:
                letter = letter_of(message)
                letter.name = name
                why = intake.add_whole(code, first + letter.partition, letter)
                if why is not None:
                    intake.reject(letter, why)
                continue
            kind, timestamp = message.timestamp()
            partition = first + message.partition()
            time_ms = timestamp if kind else -1
            why = intake.add(code, partition, message.offset(), time_ms, message.value(), name)
            if why is not None:
                intake.reject(letter_of(message), why)
    except BaseException:
        discard_readers()
        raise


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
