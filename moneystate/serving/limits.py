"""Limits what callers may use at once: streams, and calls that take more than one turn of the loop.

Point reads are answered one by one as they arrive, so they need no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from moneystate.serving.failures import Failure

RETRY_S: Final = 1.0


@dataclass(frozen=True)
class Limits:
    """The limits of each process that answers calls."""

    streams: int = 10_000
    streams_per_caller: int = 1_000
    calls: int = 1_000
    calls_per_caller: int = 100


class Room:
    """A limit on something that calls share."""

    def __init__(self, reason: str, title: str, most: int, most_per_caller: int) -> None:
        self.reason = reason  # of the failure when the limit is reached
        self.title = title  # what is limited, in words
        self.most = most
        self.most_per_caller = most_per_caller
        self.taken: Counter[str] = Counter()
        self.in_all = 0

    @contextmanager
    def of(self, who: str) -> Iterator[None]:
        """Raises Failure if the limit is reached."""
        if self.in_all >= self.most:
            raise self._full("server", self.most)
        if self.taken[who] >= self.most_per_caller:
            raise self._full("caller", self.most_per_caller)
        self.in_all += 1
        self.taken[who] += 1
        try:
            yield
        finally:
            self.in_all -= 1
            self.taken[who] -= 1
            if not self.taken[who]:
                del self.taken[who]

    def _full(self, whose: str, limit: int) -> Failure:
        message = f"expected no more than {limit} {self.title} at once of the {whose}; end some, or try again later"
        return Failure(self.reason, message, retry_s=RETRY_S, metadata={"limit": str(limit), "of": whose})


class Rooms:
    def __init__(self, limits: Limits) -> None:
        self.streams = Room("TOO_MANY_STREAMS", "streams", limits.streams, limits.streams_per_caller)
        self.calls = Room("TOO_MANY_CALLS", "calls", limits.calls, limits.calls_per_caller)
