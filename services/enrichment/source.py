"""Sources: the coordinates of the event that a value comes from, as state and lineage store them.

The encoding is the Avro record `Source`: topic (its number in `services.enrichment.topics`), partition, offset, event
time in ms. The core keeps sources as these bytes, because it only copies them. `b""`: the source is not known.
"""

from __future__ import annotations

from moneystate.engine.avro import Malformed, long_bytes, read_long


class Source:
    """The position and time of an event."""

    def __init__(self, topic: int, partition: int, offset: int, event_time: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.event_time = event_time  # in ms; for a lookup reply, its `requestedAt`


def encode_source(topic: int, partition: int, offset: int, event_time: int) -> bytes:
    return long_bytes(topic) + long_bytes(partition) + long_bytes(offset) + long_bytes(event_time)


def decode_source(source: bytes) -> Source | None:
    """None: the source is not known."""
    if not source:
        return None
    topic, pos = read_long(source, 0)
    partition, pos = read_long(source, pos)
    offset, pos = read_long(source, pos)
    event_time, _ = read_long(source, pos)
    return Source(topic, partition, offset, event_time)


def optional(source: bytes) -> bytes:
    """The union [null, Source]."""
    return b"\x02" + source if source else b"\x00"


def read_source(buf: bytes, pos: int) -> tuple[bytes, int]:
    """A union [null, Source] at `pos`, and the position after it."""
    branch, pos = read_long(buf, pos)
    if branch == 0:
        return b"", pos
    if branch != 1:
        raise Malformed("a union branch is not in the schema")
    start = pos
    numbers = 0
    while numbers < 4:
        if pos >= len(buf):
            raise Malformed("a source is cut off")
        if buf[pos] < 0x80:
            numbers += 1
        pos += 1
    return buf[start:pos], pos
