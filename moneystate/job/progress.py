"""The progress that a running job reports after each batch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moneystate.engine.deadletter import COUNT_PREFIX
from moneystate.engine.inputs import Inputs, place_text
from moneystate.engine.items import END_OF_TIME, NO_TIME, EarlyEvent
from moneystate.engine.order import Partition
from moneystate.engine.plan import IDLE, Plan, TopicPartition
from moneystate.engine.processor import InputTopic
from moneystate.job.batch_writing import Report
from moneystate.job.figures import Figures
from moneystate.kafka.table_loads import unloaded
from moneystate.replica.model import Version


@dataclass(frozen=True)
class InputProgress:
    """The progress of one input in one batch."""

    topic: str  # without prefix; for a topic pattern the pattern
    records: int
    partitions: dict[TopicPartition, bool]  # whether each is idle; empty: an input without part in the watermark
    watermark_ms: int | None = None  # None: none yet, at the end of time, or all partitions are idle


class EarlyTime(NamedTuple):
    """An event whose time is probably in another unit."""

    place: str
    key: bytes
    time_ms: int


@dataclass(frozen=True)
class BatchProgress:
    """The progress of a job after one batch."""

    batch: int
    records: int  # read in this batch
    seconds: float
    outputs: int
    watermark_ms: int | None  # None: none yet, or the end of time (`drained`)
    drained: bool  # by --drain, or because all timed streams that it reads have ended
    buffered: int
    counts: dict[str, int] = field(default_factory=dict)
    # Partitions that hold the watermark back because they have had no record.
    silent: list[str] = field(default_factory=list)
    # How long the oldest waiting event has waited, in event time, to ten seconds; None: none waits.
    oldest_wait_ms: int | None = None
    changes: int = 0  # number of state entries that were written
    held_by: str | None = None  # the partition that holds the watermark back most; None: all are idle
    idle: list[str] = field(default_factory=list)  # partitions that do not hold the watermark back
    inputs: list[InputProgress] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    epoch: str = ""
    early: dict[str, EarlyTime] = field(default_factory=dict)  # by topic: an event whose time is too early to be true
    loading: list[str] = field(default_factory=list)  # partitions of tables whose first load has not ended
    outputs_by_topic: dict[str, int] = field(default_factory=dict)  # of `outputs`, by topic without prefix

    @property
    def version(self) -> Version:
        return Version(self.epoch, self.batch)

    def count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def largest(self, most: int, without: Sequence[str]) -> list[tuple[str, int]]:
        """The counters that have counted most, besides dead letters and those of `without`."""
        own = [(name, n) for name, n in self.counts.items() if n and name not in without]
        own = [(name, n) for name, n in own if not name.startswith(COUNT_PREFIX)]
        return sorted(own, key=lambda named: (-named[1], named[0]))[:most]

    def dead_letters(self) -> dict[str, int]:
        return {k.removeprefix(COUNT_PREFIX): n for k, n in sorted(self.counts.items()) if k.startswith(COUNT_PREFIX)}


class Meter:
    """Measures seconds from the end of one batch to the end of the next, including the planning."""

    def __init__(self, bounds: Mapping[int, int]) -> None:
        """`bounds`: as in `run_batch`."""
        self.last = time.monotonic()
        self.bounds = bounds

    def measure(self, number: int, start: Plan, end: Plan, report: Report, inputs: list[InputTopic]) -> BatchProgress:
        now = time.monotonic()
        seconds, self.last = now - self.last, now
        names = Inputs(inputs).names(end.partitions)
        ordered = {t.code for t in inputs if t.ordered}
        idle = [tp for (code, _), tp in names.items() if code in ordered and end.partitions[tp].state == IDLE]
        by_code: dict[int, dict[Partition, TopicPartition]] = {t.code: {} for t in inputs}
        for place, tp in names.items():
            by_code[place[0]][place] = tp
        by_input = [self._input(t, by_code[t.code], start, end, report) for t in inputs]
        return BatchProgress(
            batch=number,
            records=sum(i.records for i in by_input),
            seconds=seconds,
            outputs=report.outputs,
            watermark_ms=None if report.watermark in (NO_TIME, END_OF_TIME) else report.watermark,
            drained=end.drain or report.watermark == END_OF_TIME,
            buffered=report.buffered,
            counts=report.counts,
            silent=[place_text(names[place]) for place in report.silent],
            held_by=next((place_text(names[place]) for place in report.holder), None),
            idle=[place_text(tp) for tp in sorted(idle)],
            oldest_wait_ms=_oldest_wait(report),
            changes=report.changes,
            inputs=by_input,
            figures=report.figures,
            loading=[place_text(tp) for tp in sorted(unloaded(end, inputs))],
            early={t.name: _early(report.early[t.code], names) for t in inputs if t.code in report.early},
        )

    def _input(
        self, topic: InputTopic, names: Mapping[Partition, TopicPartition], start: Plan, end: Plan, report: Report
    ) -> InputProgress:
        """`names`: of its partitions, by their places."""
        mine = {place: end.partitions[tp] for place, tp in names.items()}
        records = sum(p.end - start.partitions.get(names[place], p).end for place, p in mine.items())
        if not topic.ordered:
            return InputProgress(topic.name, records, {})
        idle = {names[place]: p.state == IDLE for place, p in mine.items()}
        highs = [
            max(report.highs.get(place, NO_TIME), p.clock_ms or NO_TIME) for place, p in mine.items() if p.state != IDLE
        ]
        least = min(highs, default=NO_TIME)
        known = least not in (NO_TIME, END_OF_TIME)
        return InputProgress(topic.name, records, idle, least - self.bounds.get(topic.code, 0) if known else None)


def _early(event: EarlyEvent, names: Mapping[Partition, TopicPartition]) -> EarlyTime:
    code, number, offset, time_ms, key = event
    topic, partition = names[code, number]
    return EarlyTime(f"{topic}, partition {partition}, offset {offset}", key, time_ms)


def _oldest_wait(report: Report) -> int | None:
    if END_OF_TIME in (report.oldest, report.watermark):
        return None
    return max(0, report.watermark - report.oldest)
