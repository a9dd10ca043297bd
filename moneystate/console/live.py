"""What pages show of all services, read again and again by one task while somebody looks, and more rarely otherwise."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Final

from moneystate.console.announced import Announced
from moneystate.console.endpoints import Endpoints
from moneystate.console.figures import Figures
from moneystate.console.jobs import Job, Jobs
from moneystate.console.rates import Rates
from moneystate.errors import MoneystateError
from moneystate.log import get_log

LOOK_S: Final = 1.0
REST_S: Final = 10.0  # between looks while nobody looks
KEPT_S: Final = 6 * 3_600
EVERY_S: Final = 5.0  # between samples that are kept
_log = get_log(__name__)


@dataclass(frozen=True)
class Sample:
    """`figures`: None without a metrics endpoint of the job."""

    time_ms: int
    lag: int
    batch: int
    letters: int
    figures: Figures | None = None


@dataclass
class Live:
    """`jobs`: as of the last look; `problem`: why there is none; `history`: samples by service."""

    source: Jobs
    endpoints: Endpoints
    announced: Announced
    jobs: list[Job] = field(default_factory=list)
    problem: str = ""
    looked: int = 0
    viewers: int = 0
    history: dict[str, deque[Sample]] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    sampled_s: float = float("-inf")
    made: dict[Hashable, asyncio.Task[str]] = field(default_factory=dict)  # since the last look

    def __post_init__(self) -> None:
        self.rates = Rates(self.source)

    async def run(self) -> None:
        while True:
            await self.look()
            self.wanted.clear()
            rest = LOOK_S if self.viewers else REST_S
            try:
                await asyncio.wait_for(self.wanted.wait(), rest)
            except TimeoutError:
                continue

    async def look(self) -> None:
        try:
            jobs = await asyncio.to_thread(self.source.all)
            problem = ""
        except MoneystateError as e:
            jobs, problem = self.jobs, str(e)
            if problem != self.problem:
                _log.warning(problem)
        is_due = time.monotonic() - self.sampled_s >= EVERY_S
        if is_due:
            self.sampled_s = time.monotonic()
            await asyncio.gather(
                self.endpoints.look(),
                asyncio.to_thread(self.rates.look),
                asyncio.to_thread(self.announced.look, self.source.there),
            )
        async with self.changed:
            self.jobs, self.problem = jobs, problem
            self.looked += 1
            self.made.clear()
            if is_due:
                self._keep()
            self.changed.notify_all()

    def _keep(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        for job in self.jobs:
            samples = self.history.setdefault(job.service, deque(maxlen=int(KEPT_S / EVERY_S)))
            number = -1 if job.batch is None else job.batch.number
            figures = self.endpoints.figures.get(job.service)
            samples.append(Sample(now_ms, job.lag, number, sum(job.letters.values()), figures))

    async def shared(self, key: Hashable, make: Callable[[], Coroutine[None, None, str]]) -> str:
        """Returns what `make` gives, once for each look: many browsers show the same. What it raises is raised to
        all."""
        task = self.made.get(key)
        if task is None:
            task = self.made[key] = asyncio.create_task(make())
        return await asyncio.shield(task)

    async def now(self) -> list[Job]:
        """Returns the jobs as of a look that is not older than the interval of viewers, or the first one."""
        if not self.looked:
            await self.look()
        return self.jobs

    async def looks(self) -> AsyncIterator[int]:
        """One number after each look, for a viewer that stays."""
        self.viewers += 1
        self.wanted.set()
        try:
            while True:
                yield self.looked
                async with self.changed:
                    await self.changed.wait()
        finally:
            self.viewers -= 1
