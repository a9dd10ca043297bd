"""Simulates a job in memory: batches of a log pass through source tasks and key groups, without Spark and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from moneystate.engine import slots
from moneystate.engine.block import TableEnd, merge
from moneystate.engine.deadletter import Letter
from moneystate.engine.intake import Intake, PlannedPartition
from moneystate.engine.items import NO_TIME, RANK, TIME, TIMER_RANK, EarlyEvent, Header, Item, Output
from moneystate.engine.keygroup import run_batch
from moneystate.engine.order import Partition, drained_watermark
from moneystate.engine.plan import Rewrite
from moneystate.engine.processor import Change, Decoder, InputTopic, Processor, Read, bounds_of
from moneystate.engine.state import MemoryState

NO_CLOCKS: Final[Mapping[Partition, int]] = MappingProxyType({})


class Input(NamedTuple):
    """A record as a source task reads it."""

    topic: int
    partition: int
    offset: int
    timestamp_ms: int  # -1: the record has none
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    whole: bool = False  # the simulation's `reads` decodes it


class MakesProcessors(Protocol):
    def __call__(self) -> Processor[Any]: ...


class Simulation:
    """One job. `states` has the entries of its key groups, `outputs` all of its outputs in order."""

    def __init__(
        self,
        decoder: Decoder,
        inputs: list[InputTopic],
        partitions: Sequence[tuple[int, int]],
        make: MakesProcessors,
        bound_ms: int,
        max_future_ms: int = 600_000,
        key_groups: int = 4,
        tasks: int = 2,
        dead_letter_stream: int = 2,
        max_record_bytes: int = 0,
        reads: dict[int, Read] | None = None,
    ) -> None:
        self.decoder = decoder
        self.inputs = inputs
        self.names = {t.code: t.name for t in inputs}
        self.partitions = list(partitions)
        self.make = make
        self.bound_ms = bound_ms
        self.max_future_ms = max_future_ms
        self.key_groups = key_groups
        self.tasks = tasks
        self.dead_letter_stream = dead_letter_stream
        self.max_record_bytes = max_record_bytes
        self.reads = reads
        self.ends: dict[Partition, int] = {}  # how far each partition has been read
        self.loaded: Mapping[Partition, int] = {}  # as in `PlannedPartition`
        self.on_tables: Callable[[list[TableEnd]], None] | None = None  # brings copies of tables to a batch's ends
        self.states = [MemoryState() for _ in range(key_groups)]
        self.outputs: list[Output] = []
        self.changes: list[Change] = []
        self.last: list[list[Output]] = []  # outputs of the last batch, by key group
        self.counts: dict[str, int] = {}
        self.buffered = 0
        self.watermark = NO_TIME
        self.before = NO_TIME  # the watermark before the last batch
        self.behind = 0  # events of the last batch that decisions of plans have put behind it
        self.oldest: int | None = None
        self.early: list[EarlyEvent] = []

    def batch(
        self,
        records: Iterable[Input],
        drain: bool = False,
        idle: Sequence[Partition] = (),
        rewrite: Rewrite | None = None,
        clocks: Mapping[Partition, int] = NO_CLOCKS,
        drain_until_ms: int | None = None,
    ) -> None:
        """`clocks`: of partitions in arrival order, as in marks."""
        records = list(records)
        for record in records:
            self.ends[record.topic, record.partition] = record.offset + 1
        packed = self._source(records, drained_watermark(drain, drain_until_ms), idle, rewrite, clocks)
        self.counts = {}
        self.buffered = 0
        self.behind = 0
        self.oldest = None
        self.last = []
        bounds = bounds_of(self.inputs, self.bound_ms)
        for group in range(self.key_groups):
            merged = merge([blocks[group] for blocks in packed])
            if self.on_tables is not None:
                self.on_tables(merged.tables)
            result = run_batch(merged, self.states[group], self.make(), bounds)
            self.outputs.extend(result.outputs)
            self.early.extend(result.early)
            self.last.append(result.outputs)
            self.changes.extend(result.changes)
            self.watermark = result.watermark
            self.before = result.before
            self.behind += result.behind
            self.buffered += result.buffered
            if result.oldest != NO_TIME:
                self.oldest = result.oldest if self.oldest is None else min(self.oldest, result.oldest)
            for name, n in result.counts.items():
                self.counts[name] = self.counts.get(name, 0) + n

    def latest_timer(self, until_ms: int) -> int:
        """Returns when the last of the timers that wait and are due up to `until_ms` is due; NO_TIME: none waits."""
        items: list[Item] = []
        for state in self.states:
            for key, entry in state.entries.items():
                if key.startswith(slots.PREFIX):
                    count, block = slots.open_chunk(entry)
                    slots.decode_items(block, count, items)
        timers = [item[TIME] for item in items if item[RANK] == TIMER_RANK and item[TIME] <= until_ms]
        return max(timers, default=NO_TIME)

    def _source(
        self, records: list[Input], drain_to: int, idle: Sequence[Partition], rewrite: Rewrite | None,
        clocks: Mapping[Partition, int],
    ) -> list[list[bytes]]:  # fmt: skip
        packed = []
        for task in range(self.tasks):
            partitions = self.partitions[task :: self.tasks]
            planned = [self._planned(place, place in idle, clocks) for place in partitions]
            intake = Intake(
                self.decoder, self.inputs, planned, self.key_groups, self.bound_ms, self.max_future_ms,
                self.dead_letter_stream, {}, self.max_record_bytes, self.reads,
            )  # fmt: skip
            intake.open(task, self.tasks, drain_to, rewrite)
            for record in records:
                if (record.topic, record.partition) in partitions:
                    self._add(intake, record)
            packed.append(intake.close())
        return packed

    def _planned(self, place: Partition, is_idle: bool, clocks: Mapping[Partition, int]) -> PlannedPartition:
        clock, end, loaded = clocks.get(place, NO_TIME), self.ends.get(place, 0), self.loaded.get(place, 0)
        return PlannedPartition(*place, 0 if is_idle else 1, clock, end, loaded)

    def _add(self, intake: Intake, r: Input) -> None:
        if r.whole:
            why = intake.add_whole(r.topic, r.partition, self._letter(r))
        else:
            why = intake.add(r.topic, r.partition, r.offset, r.timestamp_ms, r.value)
        if why is not None:
            intake.reject(self._letter(r), why)

    def _letter(self, r: Input) -> Letter:
        return Letter(self.names[r.topic], r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers)
