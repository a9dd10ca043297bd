"""The plan of a batch, as a source offset holds it (docs/model.md section 5), and the split of a batch's records over
partitions.

An offset is the end of one batch and the start of the next. Spark writes it as JSON text to its offset log before a
batch runs, and compares it as text. So its keys are sorted:

    {"drain": false, "rules": "<hash>", "stateVersion": 2, "tick": 0,
     "topics": {"<name>": {"id": "<topic id>", "partitions": {"0": {"end": 7, "state": "active"}}}}, "version": 1}

`end`: the first offset that the batch does not read. `state`: `empty` (never had a record), `active` or `idle` (does
not hold the watermark back). `clock`, only of a partition in arrival order whose end the batch reads: the time (ms)
that the partition has reached although it has no record of that time. `loaded`, only of a partition of a table that
other inputs wait for: offsets before it are of the first load, which has ended. `stateVersion`: the highest version of
any state schema that the planning program writes. `drain`: the watermark goes to infinity; nothing follows.
`drainUntil`, only with `--drain-until`: the drain takes the watermark to the millisecond after this time (ms), and only
a drain up to a later time follows. `tick`: raised to make a batch without data. `rewrite`, only in plans of `upgrade`:
with `{"share": 0, "shares": 16, "version": 2}` the batch rewrites the entries of the key groups g with
g mod shares = share in that state version.

A plan with a clock or with `drainUntil` has version 2: a program that ignores these would take the watermark elsewhere.
A plan with `loaded` has version 3, because the rows of a first load hold from the beginning of time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.engine.order import drained_watermark

VERSION = 3  # the highest that this program reads and writes
FIRST_VERSION = 1  # of a plan without a clock and `drainUntil`
CLOCK_VERSION = 2  # of one with these, but without `loaded`
STATE_VERSION = 2  # the highest version of any state schema that this program writes
EMPTY, ACTIVE, IDLE = "empty", "active", "idle"

TopicPartition = tuple[str, int]  # topic without prefix, partition


class NewerProgram(Exception):
    """The plan was made by a program whose plans or state this one cannot read. `args[0]` says which."""


class Unreadable(Exception):
    """An offset is not a plan. `args[0]` says why."""


def check_version(offset: Mapping[str, Any]) -> None:
    """Raises NewerProgram, and Unreadable for an offset that is not a plan."""
    version = _whole(offset, "version")
    if version > VERSION:
        raise NewerProgram(f"a plan of version {version}, this program knows {VERSION}")
    state_version = _whole(offset, "stateVersion")
    if state_version > STATE_VERSION:
        raise NewerProgram(f"state of version {state_version}, this program knows {STATE_VERSION}")


@dataclass(frozen=True)
class PartitionPlan:
    end: int
    state: str
    clock_ms: int | None = None  # None: the plan gives it no time
    loaded: int | None = None  # of a table: where its first load ends; None: it has not ended, or has no meaning

    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {} if self.clock_ms is None else {"clock": self.clock_ms}
        entry["end"] = self.end
        if self.loaded is not None:
            entry["loaded"] = self.loaded
        entry["state"] = self.state
        return entry


@dataclass(frozen=True)
class Rewrite:
    """A batch without input that rewrites a share of the entries in a state version.

    After the last share follows a closing batch that rewrites nothing: its plan says that all entries have the version.
    """

    share: int
    shares: int
    version: int

    def takes(self, key_group: int) -> bool:
        return key_group % self.shares == self.share


@dataclass(frozen=True)
class Plan:
    """A batch: the offsets that it reads, and all decisions that depend on anything but the logs."""

    rules: str
    topic_ids: Mapping[str, str]  # Kafka's id of each topic; the same name with another id is another topic
    partitions: Mapping[TopicPartition, PartitionPlan]
    drain: bool = False
    tick: int = 0
    rewrite: Rewrite | None = None
    drain_until_ms: int | None = None  # the last time that the drain runs; None: all that is left

    def to_offset(self) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        for (topic, partition), planned in sorted(self.partitions.items(), key=lambda kv: (kv[0][0], str(kv[0][1]))):
            entry = topics.setdefault(topic, {"id": self.topic_ids[topic], "partitions": {}})
            entry["partitions"][str(partition)] = planned.to_json()
        offset: dict[str, Any] = {
            "drain": self.drain,
            "rules": self.rules,
            "stateVersion": STATE_VERSION,
            "tick": self.tick,
            "topics": topics,
            "version": self._version(),
        }
        if self.drain_until_ms is not None:
            offset["drainUntil"] = self.drain_until_ms
        if self.rewrite is not None:
            r = self.rewrite
            offset["rewrite"] = {"share": r.share, "shares": r.shares, "version": r.version}
        return dict(sorted(offset.items()))

    @property
    def clock_ms(self) -> int | None:
        """The latest clock of its partitions."""
        return max((p.clock_ms for p in self.partitions.values() if p.clock_ms is not None), default=None)

    def decides(self) -> bool:
        """Whether it may advance the watermark by more than the logs say."""
        return any(p.state == IDLE or p.clock_ms is not None for p in self.partitions.values())

    def reads_like(self, other: Plan) -> bool:
        """Whether both end at the same offsets with the same states, whatever their clocks."""
        return _without_clocks(self.partitions) == _without_clocks(other.partitions)

    def _version(self) -> int:
        if any(p.loaded is not None for p in self.partitions.values()):
            return VERSION
        return FIRST_VERSION if self.clock_ms is None and self.drain_until_ms is None else CLOCK_VERSION

    def drain_to(self) -> int:
        """The `drain_to` of `order.advance`."""
        return drained_watermark(self.drain, self.drain_until_ms)

    def drains_on(self, until_ms: int | None) -> bool:
        """Whether a drain up to that time continues the one of this plan."""
        before = self.drain_until_ms
        return self.drain and before is not None and until_ms is not None and until_ms > before

    def end(self, topic: str, partition: int) -> int:
        """Returns the end of a partition, or 0 if the plan does not have it."""
        known = self.partitions.get((topic, partition))
        return 0 if known is None else known.end

    def with_partitions(self, partitions: Mapping[TopicPartition, PartitionPlan]) -> Plan:
        return replace(self, partitions=partitions)


class Reached(NamedTuple):
    """A watermark that a run had reached once it had read up to `ends`, by decisions of its plans."""

    ends: Mapping[TopicPartition, int]
    watermark_ms: int


def _without_clocks(partitions: Mapping[TopicPartition, PartitionPlan]) -> dict[TopicPartition, PartitionPlan]:
    return {tp: replace(planned, clock_ms=None) for tp, planned in partitions.items()}


def next_share(plan: Plan, shares: int, version: int) -> int:
    """The number of the share to rewrite after this plan's batch. `shares`: all are rewritten, only the closing batch
    is left. Above that: nothing is left."""
    before = plan.rewrite
    if before is None or (before.shares, before.version) != (shares, version):
        return 0
    return before.share + 1


def from_offset(offset: Mapping[str, Any]) -> Plan:
    """Raises NewerProgram for an offset that a newer program wrote, and Unreadable for one that is not a plan."""
    check_version(offset)
    partitions: dict[TopicPartition, PartitionPlan] = {}
    ids: dict[str, str] = {}
    for topic in _object(offset, "topics"):
        entry = _object(offset["topics"], topic)
        ids[topic] = _text(entry, "id")
        for number in _object(entry, "partitions"):
            planned = _object(entry["partitions"], number)
            partitions[topic, _partition(number)] = PartitionPlan(
                _whole(planned, "end"), _state(planned), _if_given(planned, "clock"), _if_given(planned, "loaded")
            )
    drain = offset.get("drain")
    if type(drain) is not bool:
        raise Unreadable("expected drain as true or false")
    until_ms = _drain_until(offset, drain)
    return Plan(_text(offset, "rules"), ids, partitions, drain, _whole(offset, "tick"), _rewrite(offset), until_ms)


def _drain_until(offset: Mapping[str, Any], drain: bool) -> int | None:
    until_ms = offset.get("drainUntil")
    if until_ms is None:
        return None
    if not drain or type(until_ms) is not int or not MIN_EVENT_TIME <= until_ms <= MAX_EVENT_TIME:
        raise Unreadable("expected drainUntil as an event time, in a drain only")
    return until_ms


def _rewrite(offset: Mapping[str, Any]) -> Rewrite | None:
    if offset.get("rewrite") is None:
        return None
    rewrite = _object(offset, "rewrite")
    shares = _whole(rewrite, "shares")
    if shares < 1:
        raise Unreadable("expected shares from 1 on")
    return Rewrite(_whole(rewrite, "share"), shares, _whole(rewrite, "version"))


def _object(fields: Any, name: str) -> Mapping[str, Any]:
    value = fields.get(name) if isinstance(fields, dict) else None
    if not isinstance(value, dict):
        raise Unreadable(f"expected an object as {name}, found {_found(value)}")
    return value


def _whole(fields: Any, name: str) -> int:
    value = fields.get(name) if isinstance(fields, dict) else None
    if type(value) is not int or value < 0 or value >= 1 << 63:
        raise Unreadable(f"expected a whole number as {name}, found {_found(value)}")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if type(value) is not str:
        raise Unreadable(f"expected a text as {name}, found {_found(value)}")
    return value


def _state(planned: Mapping[str, Any]) -> str:
    state = _text(planned, "state")
    if state not in (EMPTY, ACTIVE, IDLE):
        raise Unreadable(f"expected empty, active or idle as state, found {state[:40]!r}")
    return state


def _if_given(planned: Mapping[str, Any], name: str) -> int | None:
    return None if planned.get(name) is None else _whole(planned, name)


def _partition(number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise Unreadable(f"expected the number of a partition, found {number[:40]!r}")
    return int(number)


def _found(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def digest(offset: Mapping[str, Any]) -> str:
    """A short hash of an offset, for markers."""
    text = json.dumps(offset, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def rules_hash(rules: Mapping[str, Any]) -> str:
    return digest(rules)[:16]


@dataclass(frozen=True)
class Backlog:
    """The records that one partition has to read."""

    records: int
    # Known event times: (records from the head, event time in ms), counts rising, the head first. Event time is taken
    # as linear between and beyond them. Without points the partition is read first.
    points: tuple[tuple[int, int], ...] = ()

    def until(self, horizon_ms: float) -> float:
        """Returns how many of its records have an event time before the horizon."""
        if not self.points:
            return float(self.records)
        before = 0.0
        per_ms = 1.0
        at_ms = float(self.points[0][1])
        for n, ms in self.points[1:]:
            if ms <= at_ms:  # out of order, or at the same time: all of these count as the same time
                per_ms = max(per_ms, n - before)
                before = float(n)
                continue
            per_ms = (n - before) / (ms - at_ms)
            if horizon_ms < ms:
                break
            before, at_ms = float(n), float(ms)
        return min(float(self.records), max(0.0, before + (horizon_ms - at_ms) * per_ms))

    def head_ms(self) -> int:
        return self.points[0][1] if self.points else -1


def share(backlogs: Mapping[TopicPartition, Backlog], budget: int) -> dict[TopicPartition, int]:
    """Returns how many records to read from each partition, `budget` in total, so that all end at about the same event
    time.

    A partition that is ahead in event time waits for those behind. Otherwise a backfill would buffer the whole history
    of one topic while it reads another (docs/model.md section 5). The result has at least one record if there is any
    and budget > 0.
    """
    if sum(b.records for b in backlogs.values()) <= budget:
        return {tp: b.records for tp, b in backlogs.items()}
    low, high = _horizon_bounds(backlogs)
    for _ in range(60):
        middle = (low + high) / 2
        if sum(b.until(middle) for b in backlogs.values()) > budget:
            high = middle
        else:
            low = middle
    taken = {tp: min(b.records, int(b.until(low))) for tp, b in backlogs.items()}
    left = budget - sum(taken.values())
    for tp, b in sorted(backlogs.items(), key=lambda kv: kv[1].head_ms()):
        more = max(-taken[tp], min(left, b.records - taken[tp]))
        taken[tp] += more
        left -= more
    return taken


def _horizon_bounds(backlogs: Mapping[TopicPartition, Backlog]) -> tuple[float, float]:
    """Event times below and above which the horizon makes no difference."""
    heads = [b.points[0][1] for b in backlogs.values() if b.points]
    if not heads:
        return 0.0, 1.0
    high = float(max(heads)) + 1.0
    while any(b.until(high) < b.records for b in backlogs.values()):
        high += max(1.0, high - min(heads))
    return float(min(heads)), high


@dataclass
class Idleness:
    """Decides by wall clock which partitions are idle; only a live run does so. Times are seconds of a monotonic clock.

    Only observed time counts. Between two polls at most half of the timeout counts: after a pause of the process or the
    machine, producers have the other half to write. After a failed poll the time starts again at zero.
    """

    timeout_s: float | None
    quiet_s: dict[TopicPartition, float] = field(default_factory=dict)
    looked_at_s: float | None = None

    def look(self, now_s: float) -> None:
        """All partitions are polled now. Then call `state` for each with the result."""
        if self.timeout_s is None:
            return
        if self.looked_at_s is not None:
            passed = min(now_s - self.looked_at_s, self.timeout_s / 2)
            self.quiet_s = {tp: quiet + passed for tp, quiet in self.quiet_s.items()}
        self.looked_at_s = now_s

    def failed(self) -> None:
        """The poll failed."""
        self.quiet_s = {}
        self.looked_at_s = None

    def is_due(self, tp: TopicPartition, before: str) -> bool:
        """Whether a partition is idle if this poll finds nothing new in it."""
        if self.timeout_s is None:
            return False
        return before == IDLE or self.quiet_s.get(tp, -1.0) >= self.timeout_s

    def state(self, tp: TopicPartition, before: str, news: bool) -> str:
        """The new state of a partition whose state was `before`. `news`: there are records to read."""
        if news:
            self.quiet_s[tp] = 0.0
            return ACTIVE
        if self.is_due(tp, before):
            return IDLE
        self.quiet_s.setdefault(tp, 0.0)
        return before
