"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.01

Result = TypeVar("Result")


def until(holds: Callable[[], Result], why: Callable[[], str], within_s: float) -> Result:
    """Its first true value. Raises AssertionError past the deadline: `why` says what was there."""
    deadline = time.monotonic() + within_s
    while not (result := holds()):
        assert time.monotonic() < deadline, why()
        threading.Event().wait(POLL_S)
    return result
