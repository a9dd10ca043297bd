"""A source task's part of the engine: records in, one block for each key group out.

Records of one partition come in offset order; partitions may be mixed. Dead letters belong to the key group of their
topic and partition, events to that of their key; marks go to every key group.
"""

from __future__ import annotations

from collections.abc import Callable

from moneystate.engine import deadletter
from moneystate.engine.block import Block
from moneystate.engine.deadletter import Letter
from moneystate.engine.items import Mark
from moneystate.engine.keygroup import key_group_of
from moneystate.engine.order import Partition, RangeOrder
from moneystate.engine.plan import Rewrite
from moneystate.engine.processor import Decoder, InputTopic, Rejected

SEAL_ITEMS = 16_384  # of all key groups together: some megabytes

Convert = Callable[[bytes], bytes]


class PlannedPartition:
    """A partition as the batch plan has it: `holds` is 1 unless it is idle."""

    def __init__(self, topic: int, partition: int, holds: int) -> None:
        self.topic = topic
        self.partition = partition
        self.holds = holds


class Intake:
    """`converts`: for topics that are not in canonical form, what makes a value canonical (raises Rejected);
    `max_record_bytes`: of an event's canonical value, 0 for no limit."""

    def __init__(
        self,
        decoder: Decoder,
        inputs: list[InputTopic],
        partitions: list[PlannedPartition],
        key_groups: int,
        bound_ms: int,
        max_future_ms: int,
        dead_letter_stream: int,
        converts: dict[int, Convert],
        max_record_bytes: int = 0,
    ) -> None:
        self.decoder = decoder
        self.inputs = {t.code: t for t in inputs}
        self.partitions = partitions
        self.orders: dict[Partition, RangeOrder] = {
            (p.topic, p.partition): RangeOrder(bound_ms) for p in partitions if self.inputs[p.topic].ordered
        }
        self.key_groups = key_groups
        self.max_future_ms = max_future_ms
        self.dead_letter_stream = dead_letter_stream
        self.converts = converts
        self.max_record_bytes = max_record_bytes
        self.marks: list[Mark] = []
        self.blocks: list[Block] = []
        self.unsealed = 0

    def open(self, task: int, tasks: int, drain: bool, rewrite: Rewrite | None = None) -> None:
        """Begin the blocks of this task, number `task` of `tasks` in the batch."""
        self.blocks = [Block(task, tasks, drain, self.marks) for _ in range(self.key_groups)]
        if rewrite is not None:
            for group, block in enumerate(self.blocks):
                block.version = rewrite.version
                block.rewrite = rewrite.takes(group)

    def add(
        self,
        topic: int,
        partition: int,
        offset: int,
        timestamp_ms: int,
        value: bytes | None,
    ) -> Rejected | None:
        """Take one record, or say why it is a dead letter: `reject` then takes it with its key and headers.

        `timestamp_ms` is its Kafka timestamp, -1 where it has none.
        """
        try:
            canonical = self._canonical(topic, value)
            time, key = self.decoder.decode(topic, canonical)
            if key is not None and 0 < self.max_record_bytes < len(canonical):
                raise Rejected("too_large", f"{len(canonical)} bytes, the limit is {self.max_record_bytes}")
            # what has a key on a topic outside the order has no event time of its own
            timed = key is None or self.inputs[topic].ordered
            if timed and timestamp_ms >= 0 and time > timestamp_ms + self.max_future_ms:
                raise Rejected("too_far_ahead", f"{time - timestamp_ms} ms after the record's Kafka timestamp")
        except Rejected as e:
            return e
        order = self.orders.get((topic, partition))
        order_time = time if order is None else order.observe(time)
        if isinstance(key, bytes):
            self._take(topic, partition, offset, order_time, time, key, canonical)
        elif key is not None:
            for one in key:
                self._take(topic, partition, offset, order_time, time, one, canonical)
        return None

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

    def _seal(self) -> None:
        for block in self.blocks:
            block.seal()
        self.unsealed = 0

    def _canonical(self, topic: int, value: bytes | None) -> bytes:
        if value is None:
            raise Rejected("null_value")
        convert = self.converts.get(topic)
        return value if convert is None else convert(value)

    def close(self) -> list[bytes]:
        """The packed block of each key group, in the order of their numbers."""
        for p in self.partitions:
            order = self.orders.get((p.topic, p.partition))
            if order is not None:
                self.marks.append((p.topic, p.partition, order.high, p.holds))
        return [block.pack() for block in self.blocks]

    def reject(self, letter: Letter, why: Rejected) -> None:
        key, value, headers = deadletter.write(letter, why.reason, why.detail)
        group = key_group_of(f"{letter.topic}/{letter.partition}".encode(), self.key_groups)
        block = self.blocks[group]
        block.passed.append((self.dead_letter_stream, key, value, headers))
        name = deadletter.COUNT_PREFIX + why.reason
        block.counts[name] = block.counts.get(name, 0) + 1
