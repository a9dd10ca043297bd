"""The exception with which a step rejects its record."""

from __future__ import annotations

from typing import Any


class Reject(Exception):
    """The record becomes a dead letter for `reason`. The step's changes to state, timers and outputs are discarded."""

    def __init__(self, reason: str, detail: str = "") -> None:
        arguments: list[Any] = [reason, detail]  # callers may not check their types
        if not all(isinstance(argument, str) for argument in arguments):
            raise TypeError(f"Reject: expected two strings, found {reason!r} and {detail!r}")
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
