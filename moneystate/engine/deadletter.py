"""Dead letters: records that cannot be processed, with their origin and the reason (DESIGN.md section 3).

Key, value and headers are the original ones; headers that begin with `moneystate.` are added. If a record is too large
to be written again, the dead letter has its coordinates and the SHA-256 of its value instead.
"""

from __future__ import annotations

import hashlib
from typing import Final

from moneystate.engine.items import Header

TOO_MANY_KEYS: Final = "too_many_keys"
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
]
PREFIX: Final = "moneystate."
COUNT_PREFIX: Final = "dead_letters."
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


def _size(letter: Letter) -> int:
    total = len(letter.key or b"") + len(letter.value or b"")
    for name, content in letter.headers:
        total += len(name.encode()) + len(content or b"") + HEADER_OVERHEAD
    return total
