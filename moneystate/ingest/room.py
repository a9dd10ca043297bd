"""The memory that the bodies of open requests may take together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moneystate.ingest.deliveries import RETRY_S
from moneystate.ingest.refusals import Refused


class Taken:
    """What one request has taken."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.bytes = 0

    def grow(self, more: int) -> None:
        """Raises Refused if there is no room."""
        if self.room.bytes + more > self.room.most:
            raise Refused("QUEUE_FULL", "too many requests are open; send it again.", retry_s=RETRY_S)
        self.room.bytes += more
        self.bytes += more


class Room:
    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self.requests = 0

    @contextmanager
    def entered(self) -> Iterator[Taken]:
        taken = Taken(self)
        self.requests += 1
        try:
            yield taken
        finally:
            self.requests -= 1
            self.bytes -= taken.bytes
