"""Resolves a session id to an answer, with retries. Concurrent requests for a session share one call."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import assert_never

from moneystate.log import get_log
from services.enrichment.lookup.breaker import Breaker, Tries
from services.enrichment.lookup.http import CallResult, Found, NotFound, Refused, SessionService, Unavailable, Unusable
from services.enrichment.lookup.limiter import Limiter
from services.enrichment.lookup.metrics import Metrics
from services.enrichment.lookup.wire import Answer, Outcome

log = get_log(__name__)

MAX_BACKOFF_S = 5.0


@dataclass(frozen=True)
class Policy:
    """How often and how long the resolver tries."""

    attempts: int = 3
    timeout_s: float = 1.0
    # for all attempts and the backoff between them, without waits for the breaker, the rate limit or Retry-After
    deadline_s: float = 10.0
    backoff_s: float = 0.1
    concurrency: int = 100


class SessionResolver:
    """Asks the service, with up to `concurrency` calls at a time."""

    def __init__(
        self, service: SessionService, breaker: Breaker, limiter: Limiter, policy: Policy, metrics: Metrics
    ) -> None:
        self.service = service
        self.breaker = breaker
        self.limiter = limiter
        self.policy = policy
        self.metrics = metrics
        self.sessions: dict[bytes, asyncio.Task[Answer]] = {}  # without an answer so far
        self._slots = asyncio.Semaphore(policy.concurrency)

    def ask(self, session: bytes) -> asyncio.Task[Answer]:
        """The running task for this session, or a new one."""
        task = self.sessions.get(session)
        if task is None:
            task = asyncio.create_task(self._ask(session))
            self.sessions[session] = task
            task.add_done_callback(lambda done: self._forget(session, done))
        return task

    def drop_all(self) -> None:
        """Cancels all tasks: no request waits for them any more."""
        for task in self.sessions.values():
            task.cancel()
        self.sessions.clear()

    def _forget(self, session: bytes, task: asyncio.Task[Answer]) -> None:
        if self.sessions.get(session) is task:
            del self.sessions[session]

    async def _ask(self, session: bytes) -> Answer:
        tries = Tries()
        while True:
            result = await self._attempt(session, tries)
            if isinstance(result, Found):
                return Answer(Outcome.FOUND, result.country, tries.used + 1)
            if isinstance(result, NotFound):
                return Answer(Outcome.NOT_FOUND, None, tries.used + 1)
            if not self._is_over(tries):
                await self._back_off(tries)
            if self._is_over(tries):
                reason = "too many requests" if isinstance(result, Refused) else result.reason
                log.warning("lookup failed", attempts=tries.used, reason=reason)
                return Answer(Outcome.FAILED, None, tries.used)

    def _is_over(self, tries: Tries) -> bool:
        if tries.used >= self.policy.attempts:
            return True
        return tries.spent_s >= self.policy.deadline_s and tries.undecided == 0

    async def _attempt(self, session: bytes, tries: Tries) -> CallResult:
        """Makes one call as soon as concurrency, breaker and rate limit allow it, and records the result."""
        async with self._slots:
            probe = await self._admit()
            try:
                with self.metrics.call() as timed:
                    result = await self.service.ask(session, self._timeout_s(tries))
            except asyncio.CancelledError:
                self.breaker.undecided(probe)
                raise
        tries.spent_s += timed.seconds
        self._judge(result, tries, probe)
        return result

    async def _admit(self) -> bool:
        while True:
            probe = await self.breaker.admit()
            try:
                await self.limiter.turn()
            except asyncio.CancelledError:
                self.breaker.undecided(probe)
                raise
            if probe or self.breaker.is_closed:
                return probe

    def _timeout_s(self, tries: Tries) -> float:
        """The timeout of a call, but not more than the rest of the deadline. If the deadline has passed, and it is
        undecided whether the attempts count, it is the full timeout."""
        remaining_s = self.policy.deadline_s - tries.spent_s
        return min(self.policy.timeout_s, remaining_s) if remaining_s > 0 else self.policy.timeout_s

    def _judge(self, result: CallResult, tries: Tries, probe: bool) -> None:
        self.metrics.attempt(result)
        match result:
            case Found() | NotFound():
                self.breaker.succeeded()
            case Unusable(reason, works):
                tries.used += 1
                tries.failures += 1
                log.warning("unusable answer", reason=reason)
                if works:
                    self.breaker.succeeded()
                else:
                    self.breaker.undecided(probe)
            case Unavailable(_, wait_s):
                self.breaker.failed(tries, probe)
                self._hold(wait_s)
            case Refused(wait_s):
                tries.failures += 1
                self.breaker.undecided(probe)
                self._hold(wait_s)
            case _:
                assert_never(result)

    def _hold(self, wait_s: float | None) -> None:
        if wait_s is not None:
            self.limiter.hold(wait_s)

    async def _back_off(self, tries: Tries) -> None:
        """Waits before the next attempt: exponential backoff, with jitter so that requests that failed together are not
        retried together."""
        wait_s = min(MAX_BACKOFF_S, self.policy.backoff_s * 2 ** min(max(tries.failures, 1) - 1, 30))
        wait_s *= random.uniform(0.5, 1.0)
        await asyncio.sleep(wait_s)
        tries.spent_s += wait_s
