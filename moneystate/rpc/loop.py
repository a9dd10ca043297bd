"""An asyncio event loop that waits on a completion queue of gRPC's C core.

The C core reads and writes its sockets while somebody waits at the queue, so the thread that answers is the one that
reads: no other thread to wake for each event, as `grpc.aio` does. Descriptors of asyncio's own (signals, pipes) are
looked at in between, and timers are as exact as `POLL_S`.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from moneystate.log import get_log
from moneystate.rpc.core import Queue

POLL_S: Final = 0.005  # the longest that asyncio's descriptors wait for a poll
MAX_EVENTS_PER_POLL: Final = 64  # events before asyncio has its turn
# A poll that does not wait looks at one socket, and has nothing where that leads to no event: others may have
# something. With one look in each turn, a call waited a turn for each connection that was written to.
SOCKETS_AT_A_STRETCH: Final = 8

Result = TypeVar("Result")

log = get_log(__name__)


class CompletionSelector(selectors.DefaultSelector):
    """Events are handed to their tags, which are called with the event and say whether they left work to asyncio."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        wait_s = POLL_S if timeout is None else min(max(timeout, 0.0), POLL_S)
        self._hand_out(time.time() + wait_s, 1 if wait_s else SOCKETS_AT_A_STRETCH)
        return super().select(0)

    def _hand_out(self, until: float, looks: int) -> None:
        """`looks`: how often the queue may say that it has nothing."""
        for _ in range(MAX_EVENTS_PER_POLL):
            event = self.queue.poll(until)
            if event.tag is None:
                looks -= 1
                if not looks:
                    return
            elif self._left_work(event):
                until = 0.0  # what is there goes on first: a call must not wait a turn for each message of a stream
            del event  # it may hold the last reference to a call, which the C core waits for

    @staticmethod
    def _left_work(event: Any) -> bool:
        try:
            return bool(event.tag(event))
        except Exception:  # one call's, not the others'
            log.exception("an event of gRPC's was not handled")
            return True


def run(main: Callable[[Queue], Coroutine[Any, Any, Result]]) -> Result:
    """Does what asyncio.run does. `main` has the queue that its loop waits at."""
    queue = Queue()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(CompletionSelector(queue))) as runner:
        return runner.run(main(queue))
