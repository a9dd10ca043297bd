"""Counts what arrives at a receiver and what does not. A receiver that is away neither ends nor delays a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moneystate.log import get_log

CLOSE_S: Final = 5.0  # how long the end of a command waits for what has not been sent; Kubernetes grants 30 s in all
SENT, LOST = "sent", "lost"
SLOW: Final = "the receiver is slow or away"

log = get_log(__name__)


class Delivery:
    """`count` is called with a number and SENT or LOST, perhaps from another thread."""

    def __init__(self, title: str, do: str, count: Callable[[int, str], None]) -> None:
        self.title = title
        self.do = do
        self.count = count
        self.has_warned = False

    def sent(self, number: int) -> None:
        self.count(number, SENT)

    def lost(self, number: int, why: str) -> None:
        """The first loss is a warning in the log. `why`: without values, because it is logged."""
        self.count(number, LOST)
        if not self.has_warned:
            self.has_warned = True
            log.warning(f"{self.title} do not arrive ({why}). The command goes on without them. Do: {self.do}")
