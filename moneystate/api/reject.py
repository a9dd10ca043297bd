"""The exception with which a step rejects its record."""

from __future__ import annotations

from typing import Any


class Reject(Exception):
    """The record becomes a dead letter for `reason`, and the step leaves no trace: state, timers and outputs are as
    before it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        given: list[Any] = [reason, detail]  # callers may not check their types
        if not all(isinstance(text, str) for text in given):
            raise TypeError(f"Reject: expected texts as the reason and the detail, found {reason!r}, {detail!r}")
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
