"""Intake: the source task's part of the engine. Turns records into one block for each key group.

Records of one partition arrive in offset order; partitions may be mixed. Events go to the key group of their key, dead
letters to the key group of their topic and partition, marks to every key group or to one for each process.
"""

from __future__ import annotations

from moneystate.engine import deadletter
from moneystate.engine.avro import HEARTBEAT
from moneystate.engine.block import Block, TableEnd
from moneystate.engine.deadletter import Letter
from moneystate.engine.failure import StepFailed, step_error
from moneystate.engine.inputs import partition_in
from moneystate.engine.items import LIKELY_SINCE, MAX_EVENT_TIME, NO_TIME, Mark
from moneystate.engine.keygroup import key_group_of
from moneystate.engine.limits import MAX_COPIES, MAX_KEYS
from moneystate.engine.order import Partition, RangeOrder
from moneystate.engine.place import PLACE, carry, header_of, named
from moneystate.engine.plan import Rewrite
from moneystate.engine.processor import Convert, Decoder, InputTopic, Read, ReadValue, Rejected, bounds_of
from moneystate.errors import MoneystateError, StepError

SEAL_ITEMS = 16_384  # for all key groups together: a few megabytes
IGNORED = "ignored"  # counts records without effect, except on time
HEARTBEATS = "heartbeats"


class PlannedPartition:
    """A partition as the plan of the batch has it."""

    def __init__(
        self, topic: int, partition: int, holds: int, clock: int = NO_TIME, end: int = 0, loaded: int = 0
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.holds = holds  # 1: it holds the watermark back; 0: it is idle
        self.clock = clock  # as in a mark
        self.end = end  # the first offset that the batch does not read
        self.loaded = loaded  # offsets before it are a table's first load, which is before all time


class Intake:
    """Checks and orders the records of one source task."""

    def __init__(
        self,
        decoder: Decoder,
        inputs: list[InputTopic],
        partitions: list[PlannedPartition],
        key_groups: int,
        bound_ms: int,  # for inputs without their own
        max_future_ms: int,  # for inputs without their own
        dead_letter_stream: int,
        converts: dict[int, Convert],
        max_record_bytes: int = 0,
        reads: dict[int, Read] | None = None,
        values: dict[int, ReadValue] | None = None,
    ) -> None:
        self.decoder = decoder
        self.inputs = {t.code: t for t in inputs}
        self.partitions = partitions
        bounds = bounds_of(inputs, bound_ms)
        self.orders: dict[Partition, RangeOrder] = {
            (p.topic, p.partition): RangeOrder(bounds.get(p.topic, 0))
            for p in partitions
            if self.inputs[p.topic].ordered
        }
        self.loaded: dict[Partition, int] = {(p.topic, p.partition): p.loaded for p in partitions if p.loaded}
        self.key_groups = key_groups
        self.max_futures = {t.code: max_future_ms if t.max_future_ms is None else t.max_future_ms for t in inputs}
        self.arrivals = {t.code for t in inputs if t.arrival}
        self.dead_letter_stream = dead_letter_stream
        self.converts = converts  # for topics not in canonical form: makes a value canonical (raises Rejected)
        self.max_record_bytes = max_record_bytes  # limit of an event's canonical value; 0: no limit
        self.reads = reads or {}  # of topics whose records are taken by `add_whole`
        self.values = values or {}  # the result of `Decoder.values`
        self.marks: list[Mark] = []
        self.tables: list[TableEnd] = []
        self.blocks: list[Block] = []
        self.unsealed = 0
        # topics that have had an event with an early time; those by the broker's clock need no warning
        self.early: set[int] = set(self.arrivals)

    def open(self, task: int, tasks: int, drain_to: int, rewrite: Rewrite | None = None) -> None:
        """Begins the blocks of task number `task` of `tasks` in the batch. `drain_to`: as in `order.advance`."""
        self.blocks = [Block(task, tasks, drain_to, self.marks) for _ in range(self.key_groups)]
        for block in self.blocks:
            block.tables = self.tables
        if rewrite is not None:
            for group, block in enumerate(self.blocks):
                block.rewrite = rewrite.takes(group)

    def add(
        self,
        topic: int,
        partition: int,
        offset: int,
        timestamp_ms: int,
        value: bytes | None,
        name: bytes = b"",
    ) -> Rejected | None:
        """Takes one record, or returns why it is a dead letter. Then call `reject` with its key and headers.

        `topic` and `partition`: of its place in the order (`Inputs.place`). `timestamp_ms`: its Kafka timestamp; -1: it
        has none. `name`: of its topic, if an input reads that by a pattern.
        """
        try:
            if value is None:
                raise Rejected("null_value")
            read = self.values.get(topic)
            if read is not None:
                canonical, time, key = read(value)
            else:
                convert = self.converts.get(topic)
                canonical, time, key = self.decoder.decode(topic, value if convert is None else convert(value))
            return self._put(topic, partition, offset, timestamp_ms, canonical, time, key, name)
        except Rejected as e:
            return e
        except Exception as cause:
            return self._rejected(topic, partition, offset, name, cause)

    def add_whole(self, topic: int, partition: int, record: Letter) -> Rejected | None:
        """Works like `add`, for a topic in `reads`."""
        try:
            decoded = self.reads[topic](record)
            if decoded is None:
                self._count(record, IGNORED)
                return None
            canonical, time, key = decoded
            if self.inputs[topic].timed:
                return self._put_timed(topic, record, canonical, time, key)
            return self._put(topic, partition, record.offset, record.timestamp_ms, canonical, time, key, record.name)
        except Rejected as e:
            return e
        except Exception as cause:
            return self._rejected(topic, record.partition, record.offset, record.name, cause)

    def _rejected(self, topic: int, partition: int, offset: int, name: bytes, cause: Exception) -> Rejected:
        """An error of the service's code, such as its function for the key, or a constructor: a dead letter if the
        run says so. Otherwise raises StepError, which says where. Raises other errors of the platform."""
        if isinstance(cause, MoneystateError) and not isinstance(cause, StepError):
            raise cause
        rejected = self.decoder.rejected(cause)
        if rejected is not None:
            return rejected
        known = name.decode() or self.inputs[topic].name
        place = f"{known}, partition {partition_in(partition)}, offset {offset}: "
        if str(cause).startswith(place):
            raise cause
        raise step_error(StepFailed(known, partition_in(partition), offset, False, cause), {}) from cause

    def _put(
        self, topic: int, partition: int, offset: int, timestamp_ms: int, canonical: bytes, time: int,
        key: bytes | list[bytes] | None, name: bytes,
    ) -> Rejected | None:  # fmt: skip
        if key is not None and 0 < self.max_record_bytes < len(canonical):
            return Rejected("too_large", f"{len(canonical)} bytes, the limit is {self.max_record_bytes}")
        if topic in self.arrivals:
            if not 0 <= timestamp_ms <= MAX_EVENT_TIME:
                return Rejected(deadletter.BAD_TIMESTAMP, "no Kafka timestamp before the year 10000 to order it by")
            time = timestamp_ms
        # in an unordered topic, a record with a key has no event time of its own
        timed = key is None or self.inputs[topic].ordered
        if timed and timestamp_ms >= 0 and time > timestamp_ms + self.max_futures[topic]:
            return Rejected("too_far_ahead", f"{time - timestamp_ms} ms after the record's Kafka timestamp")
        if isinstance(key, list):
            rejected = _too_many(key, canonical)
            if rejected is not None:
                return rejected
        if time < LIKELY_SINCE and key and timed and topic not in self.early:
            self._note_early(topic, partition, offset, time, key[0] if isinstance(key, list) else key)
        if offset < self.loaded.get((topic, partition), 0):
            self._take_first(topic, partition, offset, key, canonical)
            return None
        order = self.orders.get((topic, partition))
        order_time = time if order is None else order.observe(time)
        if name and key:
            canonical = named(name, canonical)
        if isinstance(key, bytes):
            self._take(topic, partition, offset, order_time, time, key, canonical)
        elif not key:
            self._count_at(topic, partition, HEARTBEATS if canonical.startswith(HEARTBEAT) else IGNORED)
        else:
            for one in key:
                self._take(topic, partition, offset, order_time, time, one, canonical)
        return None

    def _note_early(self, topic: int, partition: int, offset: int, time: int, key: bytes) -> None:
        """One event of each topic is enough for a warning."""
        self.early.add(topic)
        self.blocks[key_group_of(key, self.key_groups)].early.append((topic, partition, offset, time, key))

    def _take(
        self, topic: int, partition: int, offset: int, order_time: int, time: int, key: bytes, canonical: bytes
    ) -> None:
        block = self.blocks[key_group_of(key, self.key_groups)]
        known = self.inputs[topic]
        if not known.ordered:
            block.unordered.append((topic, partition, offset, key, canonical))
            return
        block.items.append((order_time, known.rank, 0, topic, partition, offset, time, key, canonical))
        self.unsealed += 1
        if self.unsealed >= SEAL_ITEMS:
            self._seal()

    def _take_first(
        self, topic: int, partition: int, offset: int, key: bytes | list[bytes] | None, canonical: bytes
    ) -> None:
        """Takes a row of a table's first load. It is processed at once, and its time advances nothing."""
        if isinstance(key, bytes):
            self.blocks[key_group_of(key, self.key_groups)].unordered.append((topic, partition, offset, key, canonical))

    def _put_timed(
        self, topic: int, record: Letter, canonical: bytes, time: int, key: bytes | list[bytes] | None
    ) -> Rejected | None:
        """Takes a record of a timed stream, at the place that its writer gave it. Without a key it is a mark."""
        if key is None:
            self.orders[topic, record.partition].observe(time)
            return None
        if 0 < self.max_record_bytes < len(canonical):
            return Rejected("too_large", f"{len(canonical)} bytes, the limit is {self.max_record_bytes}")
        if isinstance(key, list):
            rejected = _too_many(key, canonical)
            if rejected is not None:
                return rejected
        place = header_of(record.headers, PLACE)
        assert place is not None
        # its offset depends on the writer's batches, so the order ignores it
        content = carry(place, record.partition, record.offset, canonical)
        rank = self.inputs[topic].rank
        if not key:
            self._count(record, IGNORED)
        for one in [key] if isinstance(key, bytes) else key:
            block = self.blocks[key_group_of(one, self.key_groups)]
            block.items.append((time, rank, 0, topic, 0, 0, time, one, content))
            self.unsealed += 1
        if self.unsealed >= SEAL_ITEMS:
            self._seal()
        return None

    def _seal(self) -> None:
        for block in self.blocks:
            block.seal()
        self.unsealed = 0

    def close(self, marked: set[int] | None = None) -> list[bytes]:
        """The packed block of each key group, in the order of their numbers. `marked`: the key groups whose block has
        the marks; None: all."""
        for p in self.partitions:
            order = self.orders.get((p.topic, p.partition))
            if order is not None:
                self.marks.append((p.topic, p.partition, order.high, p.holds, p.clock))
            if self.inputs[p.topic].table:
                self.tables.append(TableEnd(p.topic, p.partition, p.end, p.loaded))
        return [block.pack(marked is None or group in marked) for group, block in enumerate(self.blocks)]

    def reject(self, letter: Letter, why: Rejected) -> None:
        key, value, headers = deadletter.write(letter, why.reason, why.detail)
        block = self._count(letter, deadletter.COUNT_PREFIX + why.reason)
        block.passed.append((self.dead_letter_stream, key, value, headers))

    def _count(self, record: Letter, name: str) -> Block:
        """Counts the record in the block of its topic and partition. Returns the block."""
        return self._count_at(record.topic, record.partition, name)

    def _count_at(self, topic: object, partition: int, name: str) -> Block:
        block = self.blocks[key_group_of(f"{topic}/{partition}".encode(), self.key_groups)]
        block.counts[name] = block.counts.get(name, 0) + 1
        return block


def _too_many(keys: list[bytes], canonical: bytes) -> Rejected | None:
    """A record is stored once for each of its keys."""
    if len(keys) > MAX_KEYS:
        return Rejected(deadletter.TOO_MANY_KEYS, f"{len(keys)} keys, the limit is {MAX_KEYS}")
    copies = len(keys) * len(canonical)
    if copies > MAX_COPIES:
        return Rejected(deadletter.TOO_MANY_KEYS, f"{copies} bytes with all keys, the limit is {MAX_COPIES}")
    return None
