"""Limits that a record's effects must keep. They are checked in the step that causes the effect, so that nothing later
can refuse it: neither a topic, nor a replica, nor the next batch. docs/services.md lists all limits."""

from __future__ import annotations

from typing import Final

LARGEST_RECORD: Final = 1_000_000  # bytes of a Kafka record with its key and headers, unless a service declares more
JSON_GROWTH: Final = 6  # a control character is one byte in Avro and six in JSON
JSON_NAMES: Final = 4_096  # names of fields

MAX_KEYS: Final = 1_000  # of one record, which is stored once for each
MAX_COPIES: Final = 16 * 1024 * 1024  # bytes of a record, times its keys
MAX_COUNT: Final = (1 << 53) - 1  # that one call adds to a counter
MAX_TOTAL: Final = (1 << 63) - 1  # of a counter, which stops there
MAX_NAME_BYTES: Final = 1_000  # of a counter, and of the reason of a dead letter
MAX_CHAIN: Final = 10_000  # timers of a key that set each other at one order time, or past the end of a drain
MAX_IDLE: Final = 3  # of those past the end, in a row, by steps that changed nothing
MAX_DURATION_MS: Final = 1 << 60  # some 36 million years


def largest_message(largest: int, in_json: bool) -> int:
    """Bytes of the largest record of a topic, with key and headers. `largest`: bytes of its largest value in Avro; 0:
    the service declares none."""
    return max(JSON_GROWTH * largest + JSON_NAMES if in_json else largest, LARGEST_RECORD)
