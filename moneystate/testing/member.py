"""A service in a bench, with its log (in the order of sending) and its run."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from moneystate.api.handles import Input
from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.inputs import Inputs
from moneystate.engine.items import NO_TIME
from moneystate.engine.place import MARK, PLACE, cause_of, partition_of, partitions_of, place_of, time_bytes
from moneystate.engine.processor import InputTopic, bounds_of
from moneystate.records.platform_records import TableLoaded
from moneystate.runtime.json_topic import DEBEZIUM, JSON
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import InputPlan
from moneystate.runtime.table_plan import TablePlan
from moneystate.runtime.table_reader import LOADED
from moneystate.runtime.timed import in_order as services_in_order
from moneystate.testing.run import Advance, Entry, Run, Sent, Whole

Cuts = Literal["random", "one", "each"]
MAX_CUTS: Final = 12


class Member:
    """One service of a bench, with its log."""

    run: Run

    def __init__(self, plan: Plan, bound_ms: int, partitions: int, timed_partitions: int, writers: int) -> None:
        self.plan = plan
        self.topics = {t.name: t for t in plan.input_topics()}
        self.bounds = bounds_of(self.topics.values(), bound_ms)
        # The bound of its inputs in arrival order; None: it has none.
        self.arrival_bound_ms = max((self.bounds[t.code] for t in self.topics.values() if t.arrival), default=None)
        self.partitions = partitions  # of each topic that it reads, except timed streams of the bench
        self.timed_partitions = timed_partitions  # of each timed stream that another member writes
        self.writers = writers  # number of output partitions that its key groups share
        self.log: list[Entry] = []
        self.processed = 0  # how many records of the log have been processed
        self.ends: dict[tuple[int, int], int] = {}  # by topic and partition: the next offset
        self.loaded: dict[tuple[int, int], int] = {}  # as in `PlannedPartition`, of tables with a first load
        self.now_ms = 0  # the broker's clock
        # topics that it writes, with their readers and the inputs of these
        self.links: list[tuple[str, InputTopic, Member]] = []
        self.streams: set[str] = set()  # timed streams that another member writes
        self.sent = 0  # how many records it has written for members to read

    def count(self, topic: str) -> int:
        return self.timed_partitions if topic in self.streams else self.partitions

    def counts(self) -> dict[int, int]:
        """The number of partitions of each topic, by code."""
        return {topic.code: self.count(name) for name, topic in self.topics.items()}

    def link(self, reader: Member, only_timed: bool) -> None:
        inputs = Inputs(reader.topics.values())
        for output in {o.topic: o for o in self.plan.service.outputs}.values():
            known = inputs.of(output.topic)
            if known is None or (only_timed and not known.timed):
                continue
            self.links.append((output.topic, known, reader))
            if known.timed:
                reader.streams.add(output.topic)

    def has_news(self) -> bool:
        return self.processed < len(self.log)

    def topics_of(self, record: Any, to: Input[Any] | None) -> list[str]:
        """The topics where the service reads records of this type."""
        return [
            plan.topic
            for plans in self.plan.inputs.values()
            for plan in plans.values()
            if plan.codec.record.cls is type(record) and (to is None or to.topic == plan.topic)
        ]

    def planned(self, record: Any, to: Input[Any] | None) -> InputPlan | None:
        for topic in self.topics_of(record, to):
            for plan in self.plan.inputs[self.topics[topic].code].values():
                if plan.codec.record.cls is type(record):
                    return plan
        return None

    def send(
        self, plan: InputPlan, record: Any, headers: Mapping[str, bytes | None], order_time_ms: int | None,
        arrival_ms: int | None,
    ) -> int | None:  # fmt: skip
        """Appends a record to the log. Returns its time; None: it is outside the order."""
        if self.topics[plan.topic].timed:
            headers = {**headers, PLACE: self._place(plan.topic, order_time_ms)}
        timestamp_ms = -1 if arrival_ms is None else arrival_ms
        return self.take(plan.topic, Whole(None, plan.codec.encode(record), headers, timestamp_ms, raw=False))

    def _place(self, topic: str, order_time_ms: int | None) -> bytes:
        if topic in self.streams:
            raise ValueError(f"{topic}: a service of the bench writes this timed stream: send records to that service")
        if order_time_ms is None:
            raise ValueError(
                f"{topic}: expected the time of records in a timed stream, found none: pass order_time_ms="
            )
        return place_of(cause_of((order_time_ms, 0, 0, 0, 0, len(self.log), order_time_ms, b"", b"")), 0)

    def take(self, topic: str, whole: Whole) -> int | None:
        """Works like `send`, for a complete Kafka record. The broker gives one without a timestamp the time of its
        clock."""
        known = self.topics[topic]
        if known.arrival:
            whole = self._received(whole)
        time, key = self.run.time_and_key(known.code, whole)
        needs_all = whole.raw or bool(whole.headers) or known.arrival
        self.append(known.code, sum(key) % self.count(topic), whole.value or b"", whole if needs_all else None)
        return time if known.ordered else None

    def row(self, planned: TablePlan, key: bytes, row: Any, arrival_ms: int | None) -> int | None:
        """Appends a record to the log of a table, like `send`. `row`: None: a tombstone. Bytes: the value itself."""
        if planned.table.format == DEBEZIUM:
            raise ValueError(f"{planned.table!r} has change events: send them with send_raw")
        value = row if row is None or isinstance(row, bytes) else self._value_of(planned, row)
        return self.take(planned.table.topic, Whole(key, value, {}, -1 if arrival_ms is None else arrival_ms, raw=True))

    def _value_of(self, planned: TablePlan, row: Any) -> bytes:
        if planned.table.decode is not None:
            raise ValueError(f"{planned.table!r} has a function that reads values: give rows as bytes")
        value = planned.codec.encode(row)
        return planned.codec.transcode(value, HEADER_BYTES) if planned.table.format == JSON else value

    def end_load(self, planned: TablePlan, rows: int) -> None:
        """Appends the end of a table's first load to each partition."""
        value = LOADED.encode(TableLoaded(rows, rows, 0, "bench", self.now_ms))
        for partition in range(self.count(planned.table.topic)):
            place = (planned.code, partition)
            self.loaded[place] = self.ends.get(place, 0)
            self.append(*place, b"", Whole(None, value, {}, self.now_ms, raw=True))

    def _received(self, whole: Whole) -> Whole:
        if whole.timestamp_ms < 0:
            return whole._replace(timestamp_ms=self.now_ms)
        self.now_ms = max(self.now_ms, whole.timestamp_ms)
        return whole

    def append(self, topic: int, partition: int, value: bytes, whole: Whole | None = None) -> None:
        offset = self.ends.get((topic, partition), 0)
        self.ends[topic, partition] = offset + 1
        self.log.append(Sent(topic, partition, offset, value, whole))

    def mark(self, topic: int, partition: int, time_ms: int) -> None:
        self.append(topic, partition, b"", Whole(None, None, {MARK: time_bytes(time_ms)}, -1, raw=False))

    def beat(self, time_ms: int) -> None:
        """Advances time to `time_ms` in all partitions of its inputs, except timed streams that other members write."""
        self.now_ms = max(self.now_ms, time_ms)
        if self.arrival_bound_ms is not None:
            self.log.append(Advance(time_ms + self.arrival_bound_ms))
        for name, topic in self.topics.items():
            beats = topic.ordered and not topic.arrival and name not in self.streams
            for partition in range(self.count(name) if beats else 0):
                if topic.timed:
                    self.mark(topic.code, partition, time_ms)
                else:
                    self.append(topic.code, partition, self.run.heartbeat(time_ms + self.bounds[topic.code]))

    def batches(self, chance: random.Random, cuts: Cuts) -> None:
        """Processes the rest of the log in batches."""
        pending = self.log[self.processed :]
        self.processed = len(self.log)
        for batch in cut(pending, chance, cuts):
            self.batch(batch, chance)

    def batch(self, log: list[Entry], chance: random.Random, drain: bool = False, until_ms: int | None = None) -> None:
        self.run.batch(log, drain, until_ms)
        for topic, known, reader in self.links:
            if known.timed:
                self._write_timed(topic, reader, chance)
            else:
                self._write(topic, known, reader)

    def replay(self, live: Member, chance: random.Random, cuts: Cuts, until_ms: int | None) -> None:
        """Processes the log of `live` in different batches. The records of timed streams come from the replays of their
        writers instead."""
        linked = {self.topics[topic].code for topic in self.streams}
        own = [sent for sent in live.log[: live.processed] if not isinstance(sent, Sent) or sent.topic not in linked]
        self.log = list(_merged(own, self.log, chance))
        self.run.sim.loaded = live.loaded
        self.batches(chance, cuts)
        self.batch([], chance, True, until_ms)
        live.run.check_same(self.run)

    # Output for the readers of its topics

    def _write(self, topic: str, known: InputTopic, reader: Member) -> None:
        for _, key, value, _ in self.run.written(topic):
            self.sent += 1
            to = zlib.crc32(key or b"") % reader.count(known.name)
            received_ms = reader.now_ms if known.arrival else -1
            whole = Whole(key, in_format(self.plan, topic, value), {}, received_ms, raw=True)
            reader.append(known.code, to, b"", whole)

    def _write_timed(self, topic: str, reader: Member, chance: random.Random) -> None:
        """Writes one output partition after the other, in random order, because each has its own transaction."""
        code, watermark = reader.topics[topic].code, self.run.sim.watermark
        written = self.run.written(topic)
        for writer in chance.sample(range(self.writers), self.writers):
            for group, key, value, headers in written:
                if group % self.writers == writer:
                    to = partition_of(key, writer, self.writers, reader.count(topic))
                    content = in_format(self.plan, topic, value)
                    self.sent += 1
                    reader.append(code, to, b"", Whole(key, content, dict(headers), -1, raw=True))
            if watermark != NO_TIME:
                for to in partitions_of(writer, self.writers, reader.count(topic)):
                    reader.mark(code, to, watermark)


def in_order(plans: list[Plan]) -> list[Plan]:
    """The plans, writers before their readers."""
    by_name = {plan.name: plan for plan in plans}
    if len(by_name) < len(plans):
        raise ValueError("expected services with different names")
    return [by_name[service.name] for service in services_in_order([plan.service for plan in plans])]


def connect(members: list[Member], only_timed: bool) -> None:
    """Connects the members by their topics. `only_timed`: only by timed streams."""
    for writer in members:
        for reader in members:
            writer.link(reader, only_timed)


def cut(log: list[Entry], chance: random.Random, cuts: Cuts) -> Iterator[list[Entry]]:
    if cuts == "one":
        ends = [len(log)]
    elif cuts == "each":
        ends = list(range(1, len(log) + 1))
    else:
        cut_at = chance.choices(range(len(log) + 1), k=chance.randint(0, min(len(log), MAX_CUTS)))
        ends = [*sorted(cut_at), len(log)]
    ends = sorted({*ends, *(n for n, entry in enumerate(log, 1) if isinstance(entry, Advance))})
    start = 0
    for end in ends:
        yield log[start:end]
        start = max(start, end)


def _merged(one: Sequence[Entry], other: Sequence[Entry], chance: random.Random) -> Iterator[Entry]:
    """Merges both sequences randomly. Each keeps its own order."""
    sides = [iter(one), iter(other)]
    turns = [0] * len(one) + [1] * len(other)
    chance.shuffle(turns)
    for turn in turns:
        yield next(sides[turn])


def in_format(writer: Plan, topic: str, value: bytes | None) -> bytes | None:
    """A value in the format of its topic."""
    outputs = [o for o in writer.service.outputs if o.topic == topic]
    if value is None or outputs[0].format != JSON:
        return value
    codec = next(c for o in outputs if (c := writer.outputs[o].codec).header == value[:HEADER_BYTES])
    return codec.transcode(value, HEADER_BYTES)
