"""The tiers: which buckets there are, and which bucket a time is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MINUTE: Final = 60_000
QUARTER: Final = 15 * MINUTE  # the raw readings of a device are packed by it
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
LONGEST_DAY: Final = 26 * HOUR  # of local time
SPREAD_MS: Final = 30_000  # closings of a bucket are spread over it, by device


@dataclass(frozen=True)
class Tier:
    """`code`: stands for the tier in ids; `length_ms`: of a bucket, of a day the usual one; `chunk_ms`: final buckets
    of so much time are packed into columns."""

    name: str
    code: int
    length_ms: int
    chunk_ms: int

    def chunk_of(self, start: int) -> int:
        return start // self.chunk_ms


MINUTES: Final = Tier("1m", 0, MINUTE, DAY)
QUARTERS: Final = Tier("15m", 1, QUARTER, DAY)
HOURS: Final = Tier("1h", 2, HOUR, 4 * DAY)
DAYS: Final = Tier("1d", 3, DAY, 32 * DAY)
TIERS: Final = (MINUTES, QUARTERS, HOURS, DAYS)
PACKED: Final = (QUARTERS, HOURS, DAYS)  # tiers whose buckets the state holds as aggregates
BY_CODE: Final = {tier.code: tier for tier in TIERS}
BY_NAME: Final = {tier.name: tier for tier in TIERS}


def next_minute(time_ms: int) -> int:
    """The first full minute that is not before a time."""
    return -(-time_ms // MINUTE) * MINUTE


def bucket_id(tier: Tier, start: int) -> str:
    """Ids of a tier are in the order of time."""
    return f"{tier.code}{start // MINUTE:08x}"


def block_id(start: int) -> str:
    return f"{start // MINUTE:08x}"
