"""The memory that the bodies of open requests may take together."""

from __future__ import annotations

from moneystate.ingest.deliveries import RETRY_S
from moneystate.ingest.refusals import Refused


class Room:
    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self.requests = 0

    def enter(self) -> Taken:
        self.requests += 1
        return Taken(self)


class Taken:
    """Holds what one request has taken."""

    __slots__ = ("bytes", "room")

    def __init__(self, room: Room) -> None:
        self.room = room
        self.bytes = 0

    def grow(self, more: int) -> None:
        """Raises Refused if there is no room."""
        if self.room.bytes + more > self.room.most:
            raise Refused("QUEUE_FULL", "too many requests are open; send it again.", retry_s=RETRY_S)
        self.room.bytes += more
        self.bytes += more

    def leave(self) -> None:
        self.room.requests -= 1
        self.room.bytes -= self.bytes
