"""What a handler gets and returns.

def handle(tx: psycopg.Cursor, event: Event) -> list[tuple[record, key]] | None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Event:
    """A record of the handler's topic."""

    value: Any  # its fields by name, as the schema or the JSON has them; None: a tombstone
    key: str | None
    topic: str  # without prefix
    partition: int
    offset: int
    timestamp_ms: int = -1  # Kafka's; -1: the record has none
    headers: Mapping[str, bytes | None] = field(default_factory=dict)  # the last of each name


class Notification(NamedTuple):
    """A record to publish. A plain tuple of record and key will do."""

    record: Any  # a dataclass, or in JSON a dict
    key: Any  # text, a whole number, bytes, or a tuple of the parts of a key
