"""The circuit breaker: decides whether the service as a whole is down.

The service counts as down after `threshold` failed attempts in a row, of any requests. At first it is undecided whether
a failed attempt counts against its request. If another attempt succeeds, the service was up, and the failed attempt
counts. If the breaker opens first, the outage caused the failure, and the attempt does not count. If all failures in a
row belong to one request, which had also failed before others succeeded, the request itself is at fault, and the
breaker stays closed.

While the breaker is open, only probes are sent, one at a time (half open), each for another request. The waits between
probes double.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

FIRST_WAIT_S = 0.25
MAX_WAIT_S = 10.0  # the longest wait between probes, and so the longest delay until a recovered service is noticed


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Tries:
    """The attempts of one request."""

    def __init__(self) -> None:
        self.used = 0  # attempts that count
        self.undecided = 0  # failed attempts of which it is not known yet whether they count
        self.spent_s = 0.0  # how much of the deadline has been used
        self.failures = 0  # in a row, for the backoff
        self.since: int | None = None  # how many successes the service had at the first failure

    def confirm(self) -> None:
        """The undecided attempts count."""
        self.used += self.undecided
        self.undecided = 0

    def forgive(self) -> None:
        """The undecided attempts do not count, because of an outage. Restarts the deadline."""
        self.undecided = 0
        self.spent_s = 0.0
        self.failures = 0


class Timer(Protocol):
    def cancel(self) -> None: ...


class Later(Protocol):
    """The clock: calls `then` after `wait_s`."""

    def __call__(self, wait_s: float, then: Callable[[], None]) -> Timer: ...


def loop_later(wait_s: float, then: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(wait_s, then)


class Breaker:
    """The circuit breaker. All calls come from one event loop."""

    def __init__(
        self,
        threshold: int,
        first_wait_s: float = FIRST_WAIT_S,
        max_wait_s: float = MAX_WAIT_S,
        on_change: Callable[[State], None] = lambda _state: None,
        later: Later = loop_later,
    ) -> None:
        self.threshold = threshold
        self.state = State.CLOSED
        self.failed_probes = 0
        self.successes = 0
        self._first_wait_s = first_wait_s
        self._max_wait_s = max_wait_s
        self._on_change = on_change  # called with each new state
        self._later = later
        self._run: list[Tries] = []  # one item for each failed attempt since the last success
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self._probe_due = False
        self._timer: Timer | None = None

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def room(self) -> int:
        """Returns how many sessions may wait while it is not closed. The number grows with each failed probe.
        Otherwise, if all waiting requests were themselves at fault, no other request would ever be tried."""
        return self.threshold + self.failed_probes

    async def admit(self) -> bool:
        """Waits until a call may be made. True: the call is a probe, and the caller must report its end with
        `succeeded`, `failed` or `undecided`."""
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
        """Reports an answer that shows that the service works."""
        self.successes += 1
        self._decide_attempts(Tries.confirm)
        if self.state is State.CLOSED:
            return
        self.failed_probes = 0
        self._cancel_timer()
        self._become(State.CLOSED)
        while self._waiters:
            _resolve(self._waiters.popleft(), False)

    def failed(self, tries: Tries, probe: bool) -> None:
        """Reports a call without an answer, or with one that shows that the service does not work."""
        tries.failures += 1
        tries.since = self.successes if tries.since is None else tries.since
        if self.state is not State.CLOSED:
            # a call from before the breaker opened says nothing new
            tries.forgive()
            if probe:
                self.failed_probes += 1
                self._open()
            return
        tries.undecided += 1
        self._run.append(tries)
        if len(self._run) >= self.threshold:
            if self.successes > tries.since and all(each is tries for each in self._run):
                self._decide_attempts(Tries.confirm)
            else:
                self._decide_attempts(Tries.forgive)
                self._open()

    def _decide_attempts(self, decide: Callable[[Tries], None]) -> None:
        for tries in self._run:
            decide(tries)
        self._run.clear()

    def undecided(self, probe: bool) -> None:
        """Reports a call that says nothing about the service."""
        if probe and self.state is State.HALF_OPEN:
            self._open()

    def close(self) -> None:
        self._cancel_timer()

    def _open(self) -> None:
        self._become(State.OPEN)
        self._probe_due = False
        wait_s = min(self._max_wait_s, self._first_wait_s * 2 ** min(self.failed_probes, 30))
        self._cancel_timer()
        self._timer = self._later(wait_s, self._on_timer)

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
