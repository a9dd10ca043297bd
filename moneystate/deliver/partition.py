"""A partition of `deliveries` while a worker has it: what was read of it, and what its dispatcher is given."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from moneystate.deliver.book import Book
from moneystate.deliver.command_reader import Again
from moneystate.deliver.dispatcher import Dispatcher
from moneystate.deliver.history import Resume
from moneystate.deliver.pending import Queued
from moneystate.deliver.records import Delivery

LEAST_ROOM: Final = 500


class Partition:
    """`position`: the next delivery to take; `commands`: the next command to read; `held`: deliveries that wait for
    their rows, with offset and time of their records; None: the record is no delivery."""

    def __init__(self, dispatcher: Dispatcher, book: Book, position: int, commands: int) -> None:
        self.dispatcher = dispatcher
        self.book = book
        self.position = self.committed = position
        self.commands = self.commands_committed = commands
        self.room = LEAST_ROOM  # to take before the next transaction, which stores what has not ended
        self.held: deque[tuple[int, int, Delivery | None]] = deque()

    def row(self, endpoint_id: str, subscription_id: str, now_ms: int) -> None:
        """A row has changed. `subscription_id` empty: that of the endpoint."""
        queue = self.dispatcher.endpoints.get(endpoint_id)
        if queue is None:
            return
        if not subscription_id:
            self._give_endpoint(endpoint_id, now_ms)
        elif subscription_id in queue.subscriptions:
            self._give_subscription(endpoint_id, subscription_id, now_ms)

    def restore(self, left: Iterator[Queued], now_ms: int) -> None:
        """Goes on with what an earlier worker has left."""
        self.dispatcher.restore(self._introduced(left, now_ms), now_ms)

    def _introduced(self, left: Iterator[Queued], now_ms: int) -> Iterator[Queued]:
        for one in left:
            self._introduce(one.loaded.members[0], now_ms)
            yield one

    def take(self, now_ms: int) -> None:
        """Takes deliveries whose rows are known, in order."""
        while self.held and len(self.dispatcher.fresh) < self.room and self._knows(self.held[0][2]):
            offset, routed_ms, delivery = self.held.popleft()
            self.position = offset + 1
            if delivery is not None:
                self._introduce(delivery, now_ms)
                self.dispatcher.take(delivery, offset, routed_ms, now_ms)

    def redeliver(self, again: Again, now_ms: int) -> None:
        self._introduce(again.message.members[0], now_ms)
        self.dispatcher.redeliver(again.message, again.place, again.run, again.command_id, now_ms)

    def resume(self, command: Resume, now_ms: int) -> None:
        self._introduce_endpoint(command.endpoint_id, now_ms)
        self.dispatcher.resume(command.endpoint_id, command.owner, now_ms)

    def _knows(self, delivery: Delivery | None) -> bool:
        """Whether the rows of a delivery have been read."""
        return delivery is None or self.book.has(delivery)

    def _introduce(self, delivery: Delivery, now_ms: int) -> None:
        """Gives the rows of a delivery, if the dispatcher does not have them."""
        self._introduce_endpoint(delivery.endpoint_id, now_ms)
        if delivery.subscription_id not in self.dispatcher.endpoints[delivery.endpoint_id].subscriptions:
            self._give_subscription(delivery.endpoint_id, delivery.subscription_id, now_ms)

    def _introduce_endpoint(self, endpoint_id: str, now_ms: int) -> None:
        queue = self.dispatcher.endpoints.get(endpoint_id)
        if queue is None or queue.row is None:
            self._give_endpoint(endpoint_id, now_ms)

    def _give_endpoint(self, endpoint_id: str, now_ms: int) -> None:
        known = self.book.endpoint(endpoint_id)
        self.dispatcher.endpoint_row(endpoint_id, known.row, known.offset, now_ms, known.since_ms)

    def _give_subscription(self, endpoint_id: str, subscription_id: str, now_ms: int) -> None:
        its = self.book.subscriptions.get(subscription_id)
        self.dispatcher.subscription_row(endpoint_id, subscription_id, its, now_ms)
