"""Gets the answers to requests, with retries. Requests of the same path share one call."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from moneystate.log import get_log
from moneystate.lookup.breaker import Breaker, Tries
from moneystate.lookup.http_service import CallResult, Found, HttpService, NotFound, Refused, Unavailable, Unusable
from moneystate.lookup.limiter import Limiter
from moneystate.lookup.metrics import Metrics
from moneystate.lookup.wire import Answer, Outcome, Request, Wire

log = get_log(__name__)

MAX_BACKOFF_S = 5.0


@dataclass(frozen=True)
class Policy:
    """Describes how often and how long the resolver tries."""

    attempts: int = 3
    timeout_s: float = 1.0
    # It covers all attempts and the backoff between them, but not waits for the breaker, the rate limit or Retry-After
    deadline_s: float = 10.0
    backoff_s: float = 0.1
    concurrency: int = 100


class Resolver:
    """Asks the service, with up to `concurrency` calls at a time."""

    def __init__(
        self, wire: Wire, service: HttpService, breaker: Breaker, limiter: Limiter, policy: Policy, metrics: Metrics
    ) -> None:
        self.wire = wire
        self.service = service
        self.breaker = breaker
        self.limiter = limiter
        self.policy = policy
        self.metrics = metrics
        self.running: dict[str, asyncio.Task[Answer]] = {}  # by path: without an answer so far
        self._slots = asyncio.Semaphore(policy.concurrency)

    def ask(self, request: Request) -> asyncio.Task[Answer]:
        """The running task for the request's path, or a new one."""
        task = self.running.get(request.path)
        if task is None:
            task = asyncio.create_task(self._ask(request))
            self.running[request.path] = task
            task.add_done_callback(lambda done: self._forget(request.path, done))
        return task

    def drop_all(self) -> None:
        """Cancels all tasks: no request waits for them any more."""
        for task in self.running.values():
            task.cancel()
        self.running.clear()

    def _forget(self, path: str, task: asyncio.Task[Answer]) -> None:
        if self.running.get(path) is task:
            del self.running[path]

    async def _ask(self, request: Request) -> Answer:
        tries = Tries()
        while True:
            result = await self._attempt(request, tries)
            if isinstance(result, Found):
                return Answer(Outcome.FOUND, result.body, tries.used + 1)
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

    async def _attempt(self, request: Request, tries: Tries) -> CallResult:
        """Makes one call as soon as concurrency, breaker and rate limit allow it, and records the result."""
        problem = partial(self.wire.problem, request)
        async with self._slots:
            probe = await self._admit()
            try:
                with self.metrics.call() as timed:
                    result = await self.service.ask(request.path, self._timeout_s(tries), problem)
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
