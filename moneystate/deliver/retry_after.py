"""Decides for how long an answer holds its endpoint."""

from __future__ import annotations

from typing import Final

from moneystate.retry_after import retry_after_s

LEAST_MS: Final = 1_000
MOST_MS: Final = 3_600_000
_LONGEST_TEXT: Final = 64


def hold_ms(status: int, text: str | None, now_ms: int) -> int | None:
    """Returns how long to wait, from 1 s to 1 h. None: the answer does not ask for it, or not in a readable way."""
    if text is None or len(text.strip()) > _LONGEST_TEXT or not (status == 429 or 500 <= status <= 599):
        return None
    wait_s = retry_after_s(text, now_ms / 1_000)
    return None if wait_s is None else min(max(round(wait_s * 1_000), LEAST_MS), MOST_MS)
