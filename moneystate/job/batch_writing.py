"""Writes what a batch's key groups have put out: for each output partition one transaction, and a report."""

from __future__ import annotations

import marshal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field
from operator import itemgetter
from typing import Final, TypeVar

from moneystate.engine.deadletter import place_of_step
from moneystate.engine.items import END_OF_TIME, NO_TIME, EarlyEvent, Output
from moneystate.engine.marker import Decision
from moneystate.errors import LateAttemptError
from moneystate.job.figures import Figures, Stopwatch
from moneystate.job.group_results import GroupResult, Result, Spilled
from moneystate.kafka.convert import converted, writers
from moneystate.kafka.originals import Originals
from moneystate.kafka.sink import BatchId, PartitionSink, SinkConfig, cached_sink

K = TypeVar("K", str, int)

STREAM: Final = itemgetter(0)  # of an output
VALUE: Final = itemgetter(2)


@dataclass(frozen=True)
class SinkSpec:
    """Holds what the sink action of a job needs."""

    config: SinkConfig
    stream_names: list[str]  # without prefix
    topic_prefix: str
    formats: dict[str, str] = field(default_factory=dict)  # value formats of topics that are not written as Avro
    registry_url: str | None = None
    service: str = ""  # as in `JobSpec`
    dead_letter_stream: int = -1


@dataclass
class Report:
    """Holds what a batch did, summed over its key groups."""

    outputs: int = 0
    written: bool = True
    watermark: int = 0  # the same in all key groups
    buffered: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    silent: list[tuple[int, int]] = field(default_factory=list)
    oldest: int = END_OF_TIME  # ms: since when the oldest event waits; END_OF_TIME: none waits
    changes: int = 0  # number of state entries written to the changelog
    holder: list[tuple[int, int]] = field(default_factory=list)
    highs: dict[tuple[int, int], int] = field(default_factory=dict)  # highest event time of each partition
    by_stream: dict[int, int] = field(default_factory=dict)  # of `outputs`
    due: int = END_OF_TIME  # ms: when the next event or timer may be due; END_OF_TIME: nothing waits
    early: dict[int, EarlyEvent] = field(default_factory=dict)  # the first one of each topic, by its code
    before: int = NO_TIME  # the watermark before the batch, the same in all key groups
    behind: int = 0  # events that decisions of plans have put behind it
    output_bytes: int = 0  # of the values of `outputs`, in their canonical form
    figures: Figures = field(default_factory=Figures)

    def add_outputs(self, outputs: list[Output]) -> None:
        self.outputs += len(outputs)
        _add(self.by_stream, Counter(map(STREAM, outputs)))  # counted in C
        self.output_bytes += sum(map(len, filter(None, map(VALUE, outputs))))

    def add(self, result: GroupResult) -> None:
        self.changes += len(result.changes)
        self.watermark = result.watermark
        self.buffered += result.buffered
        self.silent = result.silent
        self.holder = result.holder
        self.highs = result.highs or self.highs
        self.figures.add(result.figures)
        if result.oldest != NO_TIME:
            self.oldest = min(self.oldest, result.oldest)
        self.due = min(self.due, result.due)
        self.before = result.before
        self.behind += result.behind
        _add(self.counts, result.counts)
        self._add_early(result.early)

    def merge(self, other: Report) -> None:
        self.outputs += other.outputs
        self.written = self.written and other.written
        self.watermark = other.watermark or self.watermark
        self.buffered += other.buffered
        self.silent = other.silent or self.silent
        self.holder = other.holder or self.holder
        self.highs = other.highs or self.highs
        self.figures.merge(other.figures)
        self.oldest = min(self.oldest, other.oldest)
        self.due = min(self.due, other.due)
        self.before = max(self.before, other.before)
        self.behind += other.behind
        self.changes += other.changes
        self.output_bytes += other.output_bytes
        _add(self.counts, other.counts)
        _add(self.by_stream, other.by_stream)
        self._add_early(other.early.values())

    def _add_early(self, events: Iterable[EarlyEvent]) -> None:
        for event in events:
            self.early[event[0]] = min(event, self.early.get(event[0], event))

    def pack(self) -> bytes:
        first = (self.outputs, self.written, self.watermark, self.buffered)
        rest = (self.counts, self.silent, self.oldest, self.changes, self.holder, self.highs)
        more = (self.by_stream, self.due, self.early, self.before, self.behind, self.output_bytes)
        return marshal.dumps((*first, *rest, *more, astuple(self.figures)))

    @classmethod
    def unpack(cls, data: bytes) -> Report:
        packed = marshal.loads(data)
        report = cls(*packed[:-1])
        report.figures = Figures(*packed[-1])
        return report


def _add(sums: dict[K, int], numbers: Mapping[K, int]) -> None:
    for name, n in numbers.items():
        sums[name] = sums.get(name, 0) + n


def write_batch(spec: SinkSpec, partition: int, batch: BatchId, results: Callable[[], Iterable[Result]]) -> Report:
    """Writes one output partition's batch. A producer that an attempt which came late has fenced is replaced, and the
    batch is written again (`moneystate.kafka.sink`): then `results` is called a second time."""
    sink = cached_sink(spec.config, partition)
    started = sink.started
    try:
        report = _write_once(spec, sink, batch, results())
    except LateAttemptError as e:
        if not sink.may_write_again(batch):
            raise
        print(f"batch {batch.number} is written again: {e.message}", file=sys.stderr, flush=True)  # driver.log
        report = _write_once(spec, sink, batch, results())
    report.figures.producers = sink.started - started
    return report


def _with_originals(spec: SinkSpec, outputs: list[Output]) -> list[Output]:
    """The outputs; dead letters of steps have the original records."""
    letters = [o for o in outputs if o[0] == spec.dead_letter_stream and place_of_step(o[3])]
    if not letters:
        return outputs
    originals = Originals(spec.config.bootstrap_servers, spec.config.extra, spec.topic_prefix)
    return originals.restored(outputs, spec.dead_letter_stream)


def _write_once(spec: SinkSpec, sink: PartitionSink, batch: BatchId, results: Iterable[Result]) -> Report:
    """Writes the batch in one transaction, unless its marker is there."""
    convert = writers(spec.formats, spec.stream_names, spec.topic_prefix, spec.registry_url, spec.service)
    report, groups = Report(), list[int]()
    writing, committing = Stopwatch(), Stopwatch()
    try:
        with writing:
            report.written = sink.open(batch) is Decision.WRITE
        for result in results:
            report.add_outputs(result.outputs)
            if report.written:
                with writing:
                    outputs = _with_originals(spec, result.outputs)
                    sink.write([converted(o, convert) for o in outputs] if convert else outputs)
            if isinstance(result, Spilled):
                continue
            report.add(result)
            groups.append(result.key_group)
            if report.written:
                with writing:
                    sink.write_changes(result.key_group, result.changes)
        if report.written:
            with writing:
                if groups:
                    sink.mark(report.watermark, convert)
                sink.end_changelog(batch, report.watermark, groups)
            with committing:
                sink.commit(batch)
    except BaseException:
        sink.abort()
        raise
    report.figures.sink_s, report.figures.commit_s = writing.seconds, committing.seconds
    return report
