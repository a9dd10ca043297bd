"""The exception with which a step rejects its record."""

from __future__ import annotations


class Reject(Exception):
    """The record becomes a dead letter for `reason`, and the step leaves no trace: state, timers and outputs are as
    before it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
