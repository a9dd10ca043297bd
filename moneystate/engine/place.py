"""Places: the position of a timed-stream record in its writer's order, as sortable bytes (docs/adr/0017).

A record of a timed stream carries its place in the Kafka header `place`. A mark ends a writer's batch and carries the
writer's watermark in the header `mark`. The exact bytes:

    place   cause, number
    cause   time, rank, [set_at,] topic, (partition, offset | place), key [, value]
    mark    time

    time, set_at               8 bytes, big-endian, offset by 2^63
    rank                       1 byte
    topic, partition, offset, number   count: 0x80 + n, then n bytes, big-endian, without leading zeros
    place, key, value          0x00 as 0x00 0xff, ended by 0x00 0x01

`cause` is the item whose step wrote the record, in the writer's total order. Timers have `set_at` and `value`. If the
item itself came from a timed stream, or is a timer set by such an item, the place that the item carried replaces
partition and offset, because these depend on the batch boundaries of its writer.

A reader's item of a timed stream has partition and offset 0. Its value begins with the data that it carried:

    carried   0x01, place (as above), partition (count), offset (count), value

So items sort by their places, and the position of the record in the log remains known.

An item of a topic pattern (`moneystate.engine.inputs`) carries the name of its topic, because its partition in the
order has only a hash of it:

    named     0x03, topic (as key), value
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from moneystate.engine.avro import Malformed
from moneystate.engine.inputs import partition_in
from moneystate.engine.items import END_OF_TIME, NO_TIME, OFFSET, PARTITION, TIMER_RANK, TOPIC, VALUE, Header, Item

PLACE: Final = "place"
MARK: Final = "mark"
RECORD_TIME: Final = "record-time"  # the last header of an output, which the sink turns into the Kafka timestamp
SIGN: Final = 1 << 63
TIME_BYTES: Final = 8
CARRIED: Final = b"\x01"  # no canonical value and no timer's value begins with it
NAMED: Final = b"\x03"  # neither with this


class Carried(NamedTuple):
    """The data that an item of a timed stream carries: its place, its position in the log, and its value."""

    place: bytes
    partition: int
    offset: int
    value: bytes


def time_bytes(time_ms: int) -> bytes:
    return (time_ms + SIGN).to_bytes(TIME_BYTES, "big")


def count_bytes(n: int) -> bytes:
    size = (n.bit_length() + 7) // 8
    return bytes([0x80 + size]) + n.to_bytes(size, "big")


def text_bytes(text: bytes) -> bytes:
    return text.replace(b"\x00", b"\x00\xff") + b"\x00\x01"


def cause_of(item: Item) -> bytes:
    """The place of an item in its service's total order."""
    time, rank, set_at, topic, partition, offset, _, key, value = item
    parts = [time_bytes(time), bytes([rank])]
    if rank >= TIMER_RANK:
        parts.append(time_bytes(set_at))
    parts.append(count_bytes(topic))
    carried = carried_by(value)
    if carried is None:
        parts.append(count_bytes(partition))
        parts.append(count_bytes(offset))
    else:
        parts.append(text_bytes(carried.place))
    parts.append(text_bytes(key))
    if rank >= TIMER_RANK:
        parts.append(text_bytes(own_value(value)))
    return b"".join(parts)


def place_of(cause: bytes, number: int) -> bytes:
    return cause + count_bytes(number)


def carry(place: bytes, partition: int, offset: int, value: bytes) -> bytes:
    return CARRIED + text_bytes(place) + count_bytes(partition) + count_bytes(offset) + value


def carried_by(value: bytes) -> Carried | None:
    """None: the item is not of a timed stream. Raises Malformed."""
    if not value.startswith(CARRIED):
        return None
    place, pos = _text(value, 1)
    partition, pos = _read_count(value, pos)
    offset, pos = _read_count(value, pos)
    return Carried(place, partition, offset, value[pos:])


def named(topic: bytes, value: bytes) -> bytes:
    """The value of an item of a topic pattern."""
    return NAMED + text_bytes(topic) + value


def topic_named(value: bytes) -> bytes | None:
    """The topic of an item of a topic pattern; None: it is of another input. Raises Malformed."""
    return _text(value, 1)[0] if value.startswith(NAMED) else None


def own_value(value: bytes) -> bytes:
    """An item's value without what it carries. Raises Malformed."""
    if value.startswith(NAMED):
        return value[_text(value, 1)[1] :]
    carried = carried_by(value)
    return value if carried is None else carried.value


def carried_over(value: bytes, to: bytes) -> bytes:
    """The value `to` of a timer, with what the item carries whose step sets it."""
    topic = topic_named(value)
    if topic is not None:
        return named(topic, to)
    carried = carried_by(value)
    return to if carried is None else carry(carried.place, carried.partition, carried.offset, to)


def where(item: Item) -> tuple[int, int]:
    """Partition and offset of an item's record. For a timer: of the record whose step set it."""
    value = item[VALUE]
    if value.startswith(NAMED):
        return partition_in(item[PARTITION]), item[OFFSET]
    carried = carried_by(value)
    return (item[PARTITION], item[OFFSET]) if carried is None else (carried.partition, carried.offset)


def topic_of(item: Item, names: Mapping[int, str]) -> str:
    """The topic of an item's record. `names`: of the inputs, by their codes."""
    topic = topic_named(item[VALUE])
    return names.get(item[TOPIC], str(item[TOPIC])) if topic is None else topic.decode()


def _text(buf: bytes, pos: int) -> tuple[bytes, int]:
    end = buf.find(b"\x00\x01", pos)
    if end < 0:
        raise Malformed("a place is cut off")
    return buf[pos:end].replace(b"\x00\xff", b"\x00"), end + 2


def _read_count(buf: bytes, pos: int) -> tuple[int, int]:
    if pos >= len(buf) or buf[pos] < 0x80 or pos + 1 + buf[pos] - 0x80 > len(buf):
        raise Malformed("a number of a place is cut off")
    end = pos + 1 + buf[pos] - 0x80
    return int.from_bytes(buf[pos + 1 : end], "big"), end


def partitions_of(writer: int, writers: int, partitions: int) -> range:
    """The partitions of a timed stream that only this output partition of the writer writes to."""
    return range(writer, partitions, writers)


def partition_of(key: bytes | None, writer: int, writers: int, partitions: int) -> int:
    """The partition of a timed stream to which an output partition writes a record."""
    mine = partitions_of(writer, writers, partitions)
    return mine[zlib.crc32(key or b"") % len(mine)]


def header_of(headers: list[Header], name: str) -> bytes | None:
    """The last header with this name, as is usual in Kafka."""
    last: bytes | None = None
    for header, content in headers:
        if header == name:
            last = content
    return last


def time_of(content: bytes | None) -> int | None:
    """The time with which a place or a mark begins; None: the header is neither."""
    if content is None or len(content) < TIME_BYTES:
        return None
    time = int.from_bytes(content[:TIME_BYTES], "big") - SIGN
    return time if NO_TIME <= time <= END_OF_TIME else None


def without_record_time(headers: list[Header]) -> tuple[list[Header], int]:
    """Returns the headers that Kafka gets, and the Kafka timestamp in ms. 0: that of the writing, as for a producer.

    A time before 1970 becomes 1, the first that Kafka takes.
    """
    if not headers or headers[-1][0] != RECORD_TIME:
        return headers, 0
    time_ms = time_of(headers[-1][1])
    assert time_ms is not None
    return headers[:-1], max(time_ms, 1)
