"""Event times that are probably in another unit than ms: what they look like, and what to do."""

from __future__ import annotations

from typing import Final

from moneystate.engine.items import LIKELY_SINCE
from moneystate.records.iso_time import from_ms

SECONDS: Final = 1_000  # ms
_LIKELY_UNTIL: Final = 4_102_444_800_000  # ms; 2100
ADVICE: Final = "return ms from time=, for seconds the number times 1,000."


def is_in_seconds(time_ms: int) -> bool:
    """Whether the number is a likely time in seconds."""
    return LIKELY_SINCE <= time_ms * SECONDS < _LIKELY_UNTIL


def warning(place: str, key: bytes, time_ms: int) -> str:
    """`place`: of the event."""
    seconds = f"; in seconds it would be {from_ms(time_ms * SECONDS)}" if is_in_seconds(time_ms) else ""
    return (
        f"{place}, key {key.decode(errors='replace')!r}: expected an event time in ms, found {time_ms}, which is "
        f"{from_ms(time_ms)}{seconds}. Do: {ADVICE}"
    )
