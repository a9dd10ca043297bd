"""Sends events one by one in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from moneystate.telemetry.delivery import CLOSE_S, SLOW, Delivery

MOST_WAITING: Final = 100  # events; a job makes one in a minute

T = TypeVar("T")


class Outbox(Generic[T]):
    """`put` returns at once. If too many events wait, the oldest is lost, because the newest says how a run ended."""

    def __init__(self, send: Callable[[T], None], delivery: Delivery, name: str) -> None:
        self.send = send  # may block, and may raise anything
        self.delivery = delivery
        self.waiting: deque[T] = deque()
        self.changed = threading.Condition()
        self.is_closing = False
        self.is_over = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def put(self, event: T) -> None:
        with self.changed:
            is_full = len(self.waiting) == MOST_WAITING
            if is_full:
                self.waiting.popleft()
            self.waiting.append(event)
            self.changed.notify()
        if is_full:
            self.delivery.lost(1, SLOW)

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Waits for what has not been sent, but not for longer than `wait_s`."""
        with self.changed:
            self.is_closing = True
            self.changed.notify()
        self.thread.join(wait_s)
        with self.changed:
            self.is_over = True
            left = len(self.waiting) + self.thread.is_alive()  # one is on its way
            self.waiting.clear()
        if left:
            self.delivery.lost(left, SLOW)

    def _run(self) -> None:
        while (event := self._next()) is not None:
            lost = self._sent(event)
            if self.is_over:  # it counts as lost
                return
            if lost:
                self.delivery.lost(1, lost)
            else:
                self.delivery.sent(1)

    def _sent(self, event: T) -> str:
        """Returns why it was not sent; empty: it was."""
        try:
            self.send(event)
        except Exception as e:  # any error of any library below
            return type(e).__name__
        return ""

    def _next(self) -> T | None:
        """None: closed, and nothing waits."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.is_closing)
            return self.waiting.popleft() if self.waiting else None
