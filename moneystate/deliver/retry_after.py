"""The header Retry-After (RFC 9110, section 10.2.3): seconds, or a date."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

LEAST_MS: Final = 1_000
MOST_MS: Final = 3_600_000
_LONGEST_TEXT: Final = 64


def hold_ms(status: int, text: str | None, now_ms: int) -> int | None:
    """For how long to wait, from 1 s to 1 h. None: the answer does not ask for it, or not in a readable way."""
    if text is None or not (status == 429 or 500 <= status <= 599):
        return None
    wait = _wait_ms(text.strip(), now_ms)
    return None if wait is None else min(max(wait, LEAST_MS), MOST_MS)


def _wait_ms(text: str, now_ms: int) -> int | None:
    if len(text) > _LONGEST_TEXT:
        return None
    if text.isascii() and text.isdigit():
        return int(text) * 1000
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return round(date.timestamp() * 1000) - now_ms
    except (ValueError, OverflowError, TypeError):
        return None
