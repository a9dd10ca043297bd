"""Dead letters: records that cannot be processed, with their origin and the reason (docs/model.md section 4).

Key, value and headers are the original ones; headers that begin with `moneystate.` are added. If a record is too large
to be written again, the dead letter has its coordinates and the SHA-256 of its value instead.

A step rejects a record that has gone through the buffer, where only its canonical value was kept. Such a letter has the
header `moneystate.origin`. Before it is written, `restored` gives it the original record, which is still in the log.
"""

from __future__ import annotations

import hashlib
from typing import Final

from moneystate.engine.items import Header

TOO_MANY_KEYS: Final = "too_many_keys"
BAD_TIMESTAMP: Final = "bad_timestamp"
REASONS: Final = [
    "null_value",
    "unknown_schema",
    "malformed",
    "trailing_bytes",
    "no_event_time",
    "wrong_topic",
    "too_far_ahead",
    "too_large",
    "no_place",
    TOO_MANY_KEYS,
    BAD_TIMESTAMP,
]
PREFIX: Final = "moneystate."
COUNT_PREFIX: Final = "dead_letters."
ORIGIN: Final = PREFIX + "origin"  # which part of the service rejected the record; absent: the source, which reads it
STEP: Final = b"step"
TIMER: Final = b"timer"  # there is no record: the coordinates are those of the event that set the timer
MAX_BYTES: Final = 900_000  # below the broker's default max.message.bytes, with room for the headers
LARGEST: Final = MAX_BYTES + 4096  # with them
DETAIL_CHARACTERS: Final = 500  # a detail may name a path in a foreign schema
HEADER_OVERHEAD: Final = 6  # two lengths in the record


class Letter:
    """A rejected record and its coordinates."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms  # -1: the record has none
        self.key = key
        self.value = value
        self.headers = headers
        self.name = b""  # of its topic, without prefix, if an input reads that by a pattern


def write(letter: Letter, reason: str, detail: str) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Key, value and headers of the dead letter."""
    about: list[Header] = [
        (PREFIX + "reason", reason.encode()),
        (PREFIX + "detail", detail[:DETAIL_CHARACTERS].encode("utf-8", "backslashreplace")),
        (PREFIX + "topic", letter.topic.encode()),
        (PREFIX + "partition", str(letter.partition).encode()),
        (PREFIX + "offset", str(letter.offset).encode()),
        (PREFIX + "timestamp", str(letter.timestamp_ms).encode()),
    ]
    if _size(letter) <= MAX_BYTES:
        return letter.key, letter.value, letter.headers + about
    value = letter.value or b""
    about.append((PREFIX + "value-bytes", str(len(value)).encode()))
    about.append((PREFIX + "value-sha256", hashlib.sha256(value).hexdigest().encode()))
    return None, None, about


Place = tuple[str, int, int]
"""Topic, partition and offset of the rejected record."""


def texts_of(headers: list[Header]) -> dict[str, str]:
    """Returns what the headers say about the rejection, by name without the prefix."""
    return {
        name[len(PREFIX) :]: (content or b"").decode("utf-8", "replace")
        for name, content in headers
        if name.startswith(PREFIX)
    }


def place_of_step(headers: list[Header]) -> Place | None:
    """Returns the place of the step that wrote the letter, or None if no step wrote it."""
    if (ORIGIN, STEP) not in headers:
        return None
    about = texts_of(headers)
    return about["topic"], int(about["partition"]), int(about["offset"])


def restored(headers: list[Header], original: Letter) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Key, value and headers of a step's letter, with the original record."""
    about = texts_of(headers)
    o = original
    named = Letter(about["topic"], o.partition, o.offset, o.timestamp_ms, o.key, o.value, o.headers)
    key, value, new_headers = write(named, about["reason"], about["detail"])
    return key, value, [*new_headers, (ORIGIN, STEP)]


def _size(letter: Letter) -> int:
    total = len(letter.key or b"") + len(letter.value or b"")
    for name, content in letter.headers:
        total += len(name.encode()) + len(content or b"") + HEADER_OVERHEAD
    return total
