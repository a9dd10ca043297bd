"""The rules of docs/sequencing.md over a whole log, number by number and in the plainest way.

It shares nothing with the service but the classes of records and the configuration. Numbers have to be small: it
counts through them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from services.sequencing.config import Config
from services.sequencing.records import (
    AfterClose,
    AfterRetention,
    EventsRequested,
    EventsUnavailable,
    GapSkipped,
    GapVoid,
    HeldLimit,
    LateAfterSkip,
    Poisoned,
    Resume,
    SequenceConflict,
    Sequenced,
    SequenceRestarted,
    SkipGap,
    StreamClosed,
    StreamEnded,
    StreamEvent,
    StreamOpened,
    StreamParked,
    StreamRestarted,
    StreamStalled,
)

NEVER = 1 << 60


@dataclass(frozen=True)
class Logged:
    """A record with its place in the log of the one topic."""

    partition: int
    offset: int
    record: Any


@dataclass
class Results:
    """Has the records of each topic by stream, and of all streams the reasons of dead letters by place, and counts."""

    output: dict[str, list[Any]] = field(default_factory=dict)
    requests: dict[str, list[Any]] = field(default_factory=dict)
    findings: dict[str, list[Any]] = field(default_factory=dict)
    letters: list[tuple[int, int, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


def in_order(log: list[Logged], bound_ms: int) -> list[tuple[int, Logged]]:
    """With their order times, in the total order of docs/model.md section 2."""
    high: dict[int, int] = {}
    timed = []
    for one in log:
        time = one.record.time
        before = high.get(one.partition)
        timed.append((time if before is None else max(time, before - bound_ms), one))
        high[one.partition] = time if before is None else max(time, before)
    return sorted(timed, key=lambda t: (t[0], t[1].partition, t[1].offset))


def run(log: list[Logged], bound_ms: int, config: Config) -> Results:
    results = Results()
    results.left = {model.stream for model in models(log, bound_ms, config, NEVER, results) if model.touched}
    results.letters.sort()
    return results


def models(log: list[Logged], bound_ms: int, config: Config, until: int, results: Results) -> list[Model]:
    """What there is of each stream after the log, and after what falls due before `until`."""
    ordered = in_order(log, bound_ms)
    made = [Model(stream, config, results) for stream in sorted({one.record.stream for one in log})]
    for model in made:
        for t, one in ordered:
            if one.record.stream == model.stream:
                model.timers(t)
                model.record(t, one)
        model.timers(until)
    return made


class Model:
    def __init__(self, stream: str, config: Config, results: Results) -> None:
        self.stream = stream
        self.config = config
        self.results = results
        self.begin()

    def begin(self) -> None:
        self.touched = False
        self.next = 1
        self.opened = False
        self.restarted: int | None = None
        self.held: dict[int, StreamEvent] = {}
        self.void: set[int] = set()
        self.skipped: set[int] = set()
        self.applied: dict[int, tuple[int, str, Any]] = {}  # t, event id, body
        self.clock: dict[int, tuple[int, int, bool]] = {}  # of each missing number: since, attempts, stall reported
        self.parked: Literal["", "gap", "violation"] = ""
        self.let: int | None = None
        self.limit = False
        self.last: int | None = None
        self.close: int | None = None
        self.mark: int | None = None
        self.previous: StreamEvent | None = None  # the last number's event, None after anything else
        self.latest = 0

    # What goes out

    def put(self, topic: dict[str, list[Any]], record: Any) -> None:
        topic.setdefault(self.stream, []).append(record)

    def out(self, record: Any) -> None:
        self.put(self.results.output, record)

    def finding(self, record: Any) -> None:
        self.put(self.results.findings, record)

    # Time

    def due(self) -> int:
        """When something happens by itself."""
        if self.mark is not None:
            return self.mark
        times = [NEVER]
        c = self.config
        if not self.parked:
            gaps = self.gaps()
            for numbers in gaps:
                since, asked, _ = self.clock[numbers[0]]
                if asked < c.k:
                    times.append(since + (asked + 1) * c.g1_ms)
            if gaps and not (c.policy == "stall" and self.clock[gaps[0][0]][2]):
                times.append(self.clock[gaps[0][0]][0] + c.g2_ms)
        if self.close is not None:
            times.append(self.close)
        if self.touched and c.idle_retention_ms is not None and not self.held:
            times.append(self.latest + c.idle_retention_ms)
        return min(times)

    def timers(self, before: int) -> None:
        while (t := self.due()) < before:
            self.timer(t)

    def timer(self, t: int) -> None:
        c = self.config
        if self.mark is not None:
            self.begin()
            return
        if not self.parked:
            for numbers in self.gaps():
                since, asked, _ = self.clock[numbers[0]]
                if asked < c.k and since + (asked + 1) * c.g1_ms == t:
                    self.put(self.results.requests, EventsRequested(self.stream, numbers[0], numbers[-1], asked + 1))
                    for n in numbers:
                        self.clock[n] = (since, asked + 1, self.clock[n][2])
        self.policy(t, t)
        if self.close is not None and self.close <= t:
            self.close = None
            assert self.last is not None
            self.skip(self.last)
            self.advance(t)
        self.forget_if_idle(t)

    def forget_if_idle(self, t: int) -> None:
        idle = self.config.idle_retention_ms
        if self.mark is None and idle is not None and not self.held and self.latest + idle <= t:
            self.begin()

    def gaps(self) -> list[list[int]]:
        """Maximal runs of missing numbers."""
        top = max(self.held, default=0)
        if self.last is not None:
            top = max(top, self.last)
        runs: list[list[int]] = []
        for n in range(self.next, top + 1):
            if n in self.held or n in self.void or n in self.skipped:
                continue
            if runs and runs[-1][-1] == n - 1:
                runs[-1].append(n)
            else:
                runs.append([n])
        return runs

    def policy(self, t: int, until: int) -> None:
        """For first gaps whose time is over by `until`."""
        while not self.parked and self.mark is None:
            gaps = self.gaps()
            if not gaps or self.clock[gaps[0][0]][0] + self.config.g2_ms > until:
                return
            first = gaps[0]
            if self.config.policy == "stall":
                if self.clock[first[0]][2]:
                    return
                self.finding(StreamStalled(self.stream, first[0], first[-1]))
                for n in first:
                    self.clock[n] = (*self.clock[n][:2], True)
            elif self.config.policy == "park":
                self.parked = "gap"
                self.finding(StreamParked(self.stream, "gap"))
            else:
                self.skipped.update(first)
                self.advance(t)

    # Records

    def record(self, t: int, one: Logged) -> None:
        r = one.record
        wrong = self.wrong(r)
        if wrong is not None:
            self.results.letters.append((one.partition, one.offset, wrong))
            return
        if isinstance(r, Poisoned):
            self.results.letters.append((one.partition, one.offset, "poison"))
        if self.mark is not None:
            if isinstance(r, StreamEvent):
                self.after_close(t, r)
            elif isinstance(r, StreamRestarted):
                self.restart(t, r)
            return
        self.touched = True
        self.latest = t
        if isinstance(r, StreamEvent):
            self.event(t, r)
        elif isinstance(r, EventsUnavailable):
            self.unavailable(r.from_, r.to)
        elif isinstance(r, Poisoned):
            self.unavailable(r.seq, r.seq)
        elif isinstance(r, StreamOpened):
            self.open(r.first)
        elif isinstance(r, StreamRestarted):
            self.restart(t, r)
        elif isinstance(r, SkipGap):
            self.skip(r.up_to)
        elif isinstance(r, Resume):
            self.resume(t)
        elif isinstance(r, StreamClosed) and self.last is None:
            self.last = r.last
            self.close = t + self.config.closed_wait_ms
        self.know(t)
        self.advance(t)
        self.policy(t, t - 1)
        if len(self.held) > self.config.max_held and not self.limit:
            self.limit = True
            self.finding(HeldLimit(self.stream, len(self.held)))

    def wrong(self, r: Any) -> str | None:
        """Why a record is a dead letter that has no effect."""
        right = True
        if isinstance(r, StreamEvent):
            right = r.seq >= 1
        elif isinstance(r, EventsUnavailable):
            right = 1 <= r.from_ <= r.to
        elif isinstance(r, (StreamOpened, StreamRestarted)):
            right = r.first >= 1
        elif isinstance(r, SkipGap):
            right = r.up_to >= 1
        elif isinstance(r, StreamClosed):
            right = r.last >= 0
        if not right:
            return "out_of_bounds"
        if isinstance(r, StreamOpened) and (self.mark is not None or self.opened or self.next > 1):
            return "already_begun"
        if isinstance(r, StreamRestarted) and self.restarted is not None and r.time <= self.restarted:
            return "already_restarted"
        highest = max([self.next - 1, *self.held, *self.void, *self.skipped])
        if isinstance(r, StreamClosed) and self.mark is None and self.last is None and r.last < highest:
            return "last_too_low"
        return None

    def after_close(self, t: int, e: StreamEvent) -> None:
        self.results.count("after_close")
        if self.last is not None and e.seq > self.last:
            self.finding(AfterClose(self.stream, e.seq, e))
        elif (unused := self.unused(t, e)) is not None:
            self.finding(unused)

    def event(self, t: int, e: StreamEvent) -> None:
        if self.last is not None and e.seq > self.last:
            self.after_close(t, e)
        elif e.seq < self.next:
            self.late(t, e)
        elif e.seq in self.held:
            self.again(e, self.held[e.seq].event_id, self.held[e.seq].body)
        else:
            self.held[e.seq] = e
            self.void.discard(e.seq)
            self.skipped.discard(e.seq)

    def late(self, t: int, e: StreamEvent) -> None:
        if (unused := self.unused(t, e)) is not None:
            self.finding(unused)
        else:
            self.results.count("duplicates")

    def unused(self, t: int, e: StreamEvent) -> LateAfterSkip | AfterRetention | SequenceConflict | None:
        """What is found of an event whose number was passed."""
        if e.seq in self.void or e.seq in self.skipped:
            return LateAfterSkip(self.stream, e.seq, e)
        passed_ms, event_id, body = self.applied[e.seq]
        if t > passed_ms + self.config.digest_retention_ms:
            return AfterRetention(self.stream, e.seq, e)
        return None if (e.event_id, e.body) == (event_id, body) else SequenceConflict(self.stream, e.seq, e)

    def again(self, e: StreamEvent, event_id: str, body: Any) -> None:
        if (e.event_id, e.body) == (event_id, body):
            self.results.count("duplicates")
        else:
            self.finding(SequenceConflict(self.stream, e.seq, e))

    def unavailable(self, first: int, to: int) -> None:
        for n in range(max(first, self.next), self.ends(to) + 1):
            if n not in self.held:
                self.skipped.discard(n)
                self.void.add(n)

    def skip(self, up_to: int) -> None:
        for n in range(self.next, self.ends(up_to) + 1):
            if n not in self.held and n not in self.void:
                self.skipped.add(n)

    def ends(self, n: int) -> int:
        return n if self.last is None else min(n, self.last)

    def open(self, first: int) -> None:
        self.opened = True
        for n in range(1, self.ends(first - 1) + 1):
            if n in self.held:
                e = self.held.pop(n)
                self.finding(LateAfterSkip(self.stream, n, e))
            self.void.discard(n)
            self.skipped.add(n)
            self.next = n + 1

    def restart(self, t: int, e: StreamRestarted) -> None:
        if self.mark is None:
            self.resume(t)
            self.skip(max([0, *self.held, *self.void, *self.skipped, self.last or 0]))
            self.advance(t)
            while self.parked:
                self.resume(t)
                self.advance(t)
        self.begin()
        self.touched, self.latest, self.opened, self.restarted = True, t, True, e.time
        self.out(SequenceRestarted(self.stream, e.first))
        self.skipped = set(range(1, e.first))
        self.next = e.first

    def resume(self, t: int) -> None:
        if not self.parked:
            return
        if self.parked == "violation":
            self.let = self.next
        self.parked = ""
        self.clock.clear()

    def know(self, t: int) -> None:
        """Missing numbers that were not known yet: their clock begins."""
        missing = [n for numbers in self.gaps() for n in numbers]
        for n in missing:
            self.clock.setdefault(n, (t, 0, False))

    # Passing

    def advance(self, t: int) -> None:
        """Put out what can go out."""
        while not self.parked:
            n = self.next
            if n in self.held:
                e = self.held[n]
                violates = self.violates(e)
                if violates and self.config.violation == "park" and self.let != n:
                    self.parked = "violation"
                    self.finding(StreamParked(self.stream, "violation"))
                    return
                del self.held[n]
                self.out(Sequenced(e.stream, n, e.event_id, e.body, e.time, violates))
                self.applied[n] = (t, e.event_id, e.body)
                self.previous = e
                self.next = n + 1
            elif n in self.void:
                self.run(n, self.void, GapVoid)
            elif n in self.skipped:
                self.run(n, self.skipped, GapSkipped)
            elif self.last is not None and n > self.last:
                self.out(StreamEnded(self.stream, self.last))
                self.mark = t + self.config.closed_retention_ms
                self.close = None
                return
            else:
                return

    def run(self, n: int, numbers: set[int], record: type) -> None:
        to = n
        while to + 1 in numbers:
            to += 1
        self.out(record(self.stream, n, to))
        self.previous = None
        self.next = to + 1

    def violates(self, e: StreamEvent) -> list[str]:
        before = None if self.previous is None else self.value(self.previous)
        if before is None or before not in self.config.follows:
            return []
        return [] if self.value(e) in self.config.follows[before] else [before]

    def value(self, e: StreamEvent) -> str | None:
        body = json.loads(e.body.text)
        value = body.get(self.config.follows_field) if isinstance(body, dict) else None
        return value if isinstance(value, str) else None
