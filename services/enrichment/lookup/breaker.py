"""The circuit breaker: decides whether the service as a whole is down.

Down is a run of `threshold` failed attempts, of whatever requests, with no success among them. A failed attempt is
provisional: a success after it shows that the service was there, and the attempt is used up; if the run opens the
breaker first, the failures in it were the outage's and use up nothing. A run of a single request that had failed
before others succeeded is its own fault, and opens nothing. While it is open nothing is called but one probe at a time
(half open), another request each time, after waits that double.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import StrEnum

FIRST_WAIT_S = 0.25
MAX_WAIT_S = 10.0  # how late a service that is back may be noticed


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Tries:
    """One request's attempts: `used` up, and failed ones of which it is `open` whether the service was there.

    `spent_s`: how much of its deadline is gone. `failures`: one after the other, for the backoff. `since`: the
    service's successes at its first failure.
    """

    def __init__(self) -> None:
        self.used = 0
        self.open = 0
        self.spent_s = 0.0
        self.failures = 0
        self.since: int | None = None

    def confirm(self) -> None:
        self.used += self.open
        self.open = 0

    def forgive(self) -> None:
        """After an outage, restarts the whole deadline."""
        self.open = 0
        self.spent_s = 0.0
        self.failures = 0


class Breaker:
    """For one event loop."""

    def __init__(
        self,
        threshold: int,
        first_wait_s: float = FIRST_WAIT_S,
        max_wait_s: float = MAX_WAIT_S,
        on_change: Callable[[State], None] = lambda _state: None,
    ) -> None:
        self.threshold = threshold
        self.state = State.CLOSED
        self.failed_probes = 0
        self.successes = 0
        self._first_wait_s = first_wait_s
        self._max_wait_s = max_wait_s
        self._on_change = on_change  # called with each new state
        self._run: list[Tries] = []
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self._probe_due = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def room(self) -> int:
        """How many sessions may be in hand while it is not closed. One more after each failed probe: were all that
        wait at fault themselves, nothing else would ever be tried."""
        return self.threshold + self.failed_probes

    async def admit(self) -> bool:
        """Wait until a call may be made; True: it is the probe, and its end has to be told by `succeeded`, `failed` or
        `undecided`."""
        while self.state is not State.CLOSED:
            if self.state is State.OPEN and self._probe_due:
                self._become(State.HALF_OPEN)
                return True
            if await self._wait():
                return True
        return False

    async def _wait(self) -> bool:
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.undecided(True)
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def succeeded(self) -> None:
        """The service gave an answer that shows that it works."""
        self.successes += 1
        self._for_open_attempts(Tries.confirm)
        if self.state is State.CLOSED:
            return
        self.failed_probes = 0
        self._cancel_timer()
        self._become(State.CLOSED)
        while self._waiters:
            _resolve(self._waiters.popleft(), False)

    def failed(self, tries: Tries, probe: bool) -> None:
        """No answer, or one that only says that the service does not work."""
        tries.failures += 1
        tries.since = self.successes if tries.since is None else tries.since
        if self.state is not State.CLOSED:
            # what was called before it opened tells nothing new
            tries.forgive()
            if probe:
                self.failed_probes += 1
                self._open()
            return
        tries.open += 1
        self._run.append(tries)
        if len(self._run) >= self.threshold:
            if self.successes > tries.since and all(each is tries for each in self._run):
                self._for_open_attempts(Tries.confirm)
            else:
                self._for_open_attempts(Tries.forgive)
                self._open()

    def _for_open_attempts(self, how: Callable[[Tries], None]) -> None:
        for tries in self._run:
            how(tries)
        self._run.clear()

    def undecided(self, probe: bool) -> None:
        """The call ended without saying anything of the service."""
        if probe and self.state is State.HALF_OPEN:
            self._open()

    def close(self) -> None:
        self._cancel_timer()

    def _open(self) -> None:
        self._become(State.OPEN)
        self._probe_due = False
        wait_s = min(self._max_wait_s, self._first_wait_s * 2 ** min(self.failed_probes, 30))
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._probe_due = True
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._become(State.HALF_OPEN)
                waiter.set_result(True)
                return

    def _become(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            self._on_change(state)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _resolve(waiter: asyncio.Future[bool], probe: bool) -> None:
    if not waiter.done():
        waiter.set_result(probe)
