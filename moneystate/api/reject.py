"""The exception with which a step rejects its record."""

from __future__ import annotations

from typing import Any

from moneystate.engine.limits import MAX_NAME_BYTES


class Reject(Exception):
    """The record becomes a dead letter for `reason`. The step's changes to state, timers and outputs are discarded."""

    def __init__(self, reason: str, detail: str = "") -> None:
        arguments: list[Any] = [reason, detail]  # callers may not check their types
        if not all(isinstance(argument, str) for argument in arguments):
            raise TypeError(f"Reject: expected two strings, found {reason!r} and {detail!r}")
        size = len(reason.encode())
        if not 0 < size <= MAX_NAME_BYTES:
            raise ValueError(f"Reject: expected a reason of 1 to {MAX_NAME_BYTES:,} bytes, found {size:,} bytes")
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
