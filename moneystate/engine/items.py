"""Items: the unit that the total order sorts, the buffer stores and a processor's step receives.

An item is a plain tuple, so that comparing, sorting and moving it between processes costs almost nothing. Constants
name its fields. A compiled module reads `item[KEY]` as fast as `item[7]`; a class would be slower.

The first six fields are the total order of docs/model.md section 2. No two events share them. Timers that are due at
the same time sort by the events that set them.
"""

from __future__ import annotations

from typing import Final

Item = tuple[int, int, int, int, int, int, int, bytes, bytes]

TIME: Final = 0  # ms; an event's order time, a timer's due time (docs/model.md section 2)
RANK: Final = (
    1  # TABLE_RANK: rows of tables; 0..7: events, as the processor ranks them; TIMER_RANK, CLEANUP_RANK: timers
)
SET_AT: Final = 2  # 0 for events; for a timer the order time of the event that set it
TOPIC: Final = 3  # topic, partition, offset of the event; for a timer, of the event that set it
PARTITION: Final = 4
OFFSET: Final = 5
EVENT_TIME: Final = 6  # ms; for a timer 0
KEY: Final = 7  # the entity that it belongs to, UTF-8
VALUE: Final = 8  # an event in canonical Avro single-object encoding; for a timer, the value that its processor set

TABLE_RANK: Final = -1  # rows of tables: before all events of the same time
TIMER_RANK: Final = 8  # after all events of the same time
CLEANUP_RANK: Final = 9  # removals that affect no result, after all timers of the same time

NO_TIME: Final = -(1 << 61)  # before every event time: "never"
END_OF_TIME: Final = 1 << 61  # after every event time: the watermark of a drained job
MIN_EVENT_TIME: Final = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
MAX_EVENT_TIME: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

NO_ITEM: Final[Item] = (NO_TIME, 0, 0, 0, 0, 0, NO_TIME, b"", b"")  # before the first one

LIKELY_SINCE: Final = 631_152_000_000  # ms; 1990: an earlier event time is probably in another unit

# An event with a time before `LIKELY_SINCE`: topic, partition, offset, its time, key.
EarlyEvent = tuple[int, int, int, int, bytes]

# A record of an input outside the order (docs/model.md section 2): topic, partition, offset, key,
# value.
UnorderedRecord = tuple[int, int, int, bytes, bytes]

# A record to write: stream (the processor's number for an output topic), key, value, headers.
Header = tuple[str, bytes | None]
Output = tuple[int, bytes | None, bytes | None, list[Header]]

# A mark, which a batch has for each partition of an ordered input: topic, partition, the highest event time in the
# batch or NO_TIME, whether the partition holds the watermark back (1) or is idle (0), and the time that its plan gives
# to a quiet partition in arrival order (`PartitionPlan.clock_ms`) or NO_TIME.
Mark = tuple[int, int, int, int, int]
