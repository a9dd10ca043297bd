"""The planner's view of inputs in arrival order: how far time has come in quiet partitions, and whether a batch is due
because of it (docs/arrival.md)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from confluent_kafka.admin import AdminClient

from moneystate.engine.inputs import Inputs
from moneystate.engine.items import END_OF_TIME
from moneystate.engine.order import Partition
from moneystate.engine.plan import Plan, TopicPartition
from moneystate.kafka.broker_clock import BrokerClock
from moneystate.kafka.offsets import FullPartition, high_watermarks, log_ends
from moneystate.kafka.source_spec import SourceSpec


@dataclass(frozen=True)
class LogEnds:
    """The ends of the logs, and how far time has come in partitions in arrival order."""

    ends: Mapping[TopicPartition, int]
    clock_ms: int | None = None  # the broker's time, taken before the ends were looked up
    settled: Collection[TopicPartition] = ()  # in arrival order, and without an open transaction

    def clock_of(self, tp: TopicPartition, end: int) -> int | None:
        """The time that a partition has reached once it is read up to `end`; None: its records alone tell."""
        return self.clock_ms if tp in self.settled and end == self.ends[tp] else None


class Arrivals:
    """Holds the arrival times of one run. `partitions`: those of all inputs, with their full names."""

    def __init__(self, spec: SourceSpec, admin: AdminClient) -> None:
        self.spec = spec
        self.admin = admin
        self.inputs = Inputs(spec.inputs)
        self.codes = {t.code for t in spec.inputs if t.arrival}
        self.bound_ms = max((t.bound_ms or 0 for t in spec.inputs if t.arrival), default=0)
        self.had_news = True  # in the last plan

    @cached_property
    def clock(self) -> BrokerClock:
        s = self.spec
        return BrokerClock(self.admin, s.bootstrap_servers, s.extra, s.topic(s.clock), s.broker_skew_ms)

    def has(self, tp: TopicPartition) -> bool:
        return bool(self.codes) and self.inputs.first(tp[0])[0] in self.codes

    def look(self, partitions: Mapping[TopicPartition, FullPartition]) -> LogEnds:
        """Looks up, in this order, the broker's time, the ends with open transactions, the ends of what is committed.
        What is written after the first has at least that time. What was written before it is below the second. So where
        the third has reached the second, nothing with an earlier time will follow."""
        arrivals = {tp: full for tp, full in partitions.items() if self.has(tp)}
        if not arrivals:
            return LogEnds(committed_ends(self.admin, partitions))
        clock_ms = self.clock.time_ms()
        highs = high_watermarks(self.admin, arrivals.values())
        ends = committed_ends(self.admin, partitions)
        return LogEnds(ends, clock_ms, frozenset(tp for tp, full in arrivals.items() if ends[tp] >= highs[full]))

    def look_for_news(self, plan: Plan, partitions: Mapping[TopicPartition, FullPartition]) -> LogEnds:
        """Works like `look`, but without the broker's time while there is nothing to read and nothing can be due: Spark
        asks for plans more often than time is worth a record."""
        if self.codes and not self.had_news:
            ends = committed_ends(self.admin, partitions)
            self.had_news = _has_news(plan, ends)
            if not self.had_news and not self._may_be_due(plan):
                return LogEnds(ends)
        log = self.look(partitions)
        self.had_news = _has_news(plan, log.ends)
        return log

    def _may_be_due(self, plan: Plan) -> bool:
        """Judges by the time that has passed on this machine since the last look, which only decides whether to ask the
        broker."""
        now_ms = self.clock.latest_ms + (time.monotonic() - self.clock.taken_at_s) * 1000
        return plan.clock_ms is None or now_ms > min(plan.clock_ms + self.spec.clock_every_ms - 1, self._due_ms())

    def is_due(self, plan: Plan, following: Plan) -> bool:
        """Whether a batch without records is worth it, because time goes on in it."""
        before, now = plan.clock_ms, following.clock_ms
        if now is None or before == now:
            return False
        if before is None or self.spec.bounded or self._due_ms() < now:
            return True
        return now - before >= self.spec.clock_every_ms

    def _due_ms(self) -> int:
        """The clock after which the next event or timer may be due."""
        try:
            return int(Path(self.spec.due_file).read_text()) + self.bound_ms
        except FileNotFoundError:  # there was no batch yet in this run
            return 0


def committed_ends(admin: AdminClient, partitions: Mapping[TopicPartition, FullPartition]) -> dict[TopicPartition, int]:
    """The ends of the logs for readers of committed records."""
    ends = log_ends(admin, partitions.values())
    return {tp: ends[full] for tp, full in partitions.items()}


def due_by_clock(due_ms: int, holder: Iterable[Partition], clocks: Mapping[Partition, int | None]) -> int:
    """Returns when the broker's clock may make an event or timer due, if any may be due at `due_ms`. While a partition
    without a clock holds the watermark back, the clock makes nothing due."""
    return END_OF_TIME if any(clocks.get(place) is None for place in holder) else due_ms


def _has_news(plan: Plan, ends: Mapping[TopicPartition, int]) -> bool:
    return any(plan.end(*tp) < end for tp, end in ends.items())
