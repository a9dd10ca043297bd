"""Runs the demo: starts broker, session service, job, lookup worker and query server, plays the chapters, queries the
state, and removes everything."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from moneystate.devbroker import DevBroker
from services.enrichment.demo.exchange import Exchange
from services.enrichment.demo.job import (
    PARTITIONS,
    ServiceProcess,
    address_of,
    enrichment_job,
    lookup_worker,
    query_server,
)
from services.enrichment.demo.promises import ChapterVerdict, judge, stray_letter, stray_money
from services.enrichment.demo.questions import Answer, ask
from services.enrichment.demo.scenario import Chapter
from services.enrichment.fake_service import FakeSessionService, Knowledge

# The first chapter waits for the start of Spark (10 s on two cores). Later ones take about a second. After these
# timeouts a promise counts as broken.
FIRST_TIMEOUT_S = 90.0
TIMEOUT_S = 20.0
KNOWLEDGE = Knowledge()  # the content of the session service
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Outcome:
    """The result of the demo."""

    verdicts: list[ChapterVerdict]
    strays: list[str]  # outputs after the last chapter; there must be none

    @property
    def held(self) -> bool:
        return all(v.held for v in self.verdicts) and not self.strays


class Audience(Protocol):
    """The display of a run. `seconds`: from sending a chapter until its output was read."""

    def busy(self, activity: str) -> AbstractContextManager[object]: ...
    def note(self, line: str) -> None: ...
    def chapter(self, verdict: ChapterVerdict, seconds: float, with_start: bool) -> None: ...
    def answers(self, answers: list[Answer]) -> None: ...


def run(chapters: list[Chapter], audience: Audience) -> Outcome:
    """Runs the demo. Raises SetupError, BrokerError or JobError. However it ends, also by a signal, it leaves no
    processes or files behind."""
    with _one_signal_only(), tempfile.TemporaryDirectory(prefix="moneystate-demo-") as folder:
        broker = DevBroker(Path(folder) / "kafka", heap="256m", progress=audience.note)
        try:
            with audience.busy("starting Kafka, a broker of its own on a free port"):
                broker.start()
            servers = broker.bootstrap_servers
            with (
                closing(Exchange(servers, PARTITIONS)) as exchange,
                FakeSessionService(KNOWLEDGE) as service,
                enrichment_job(servers, Path(folder) / "job") as job,
                lookup_worker(servers, service.url, Path(folder) / "worker") as worker,
                query_server(servers, Path(folder) / "serve") as server,
            ):
                return _play(chapters, exchange, [job, worker, server], audience)
        finally:
            broker.stop()


def _play(chapters: list[Chapter], exchange: Exchange, running: list[ServiceProcess], audience: Audience) -> Outcome:
    try:
        verdicts = [_chapter(c, n == 0, exchange, running, audience) for n, c in enumerate(chapters)]
        with audience.busy("asking the query server what the state is now"):
            server = running[-1]
            answers = ask(address_of(server), chapters[-1].advance_to, server.environment())
        audience.answers(answers)
        with audience.busy("ending the job, the worker, the server and the broker"):
            for process in running:
                process.stop()
            rest = exchange.receive(0, TIMEOUT_S, lambda: None)
        return Outcome(verdicts, [*map(stray_money, rest.money), *map(stray_letter, rest.dead_letters)])
    finally:
        _ignore_signals()  # the clean-up that follows must not be cut short


def _chapter(
    chapter: Chapter, first: bool, exchange: Exchange, running: list[ServiceProcess], audience: Audience
) -> ChapterVerdict:
    steps = chapter.steps

    def check() -> None:
        for process in running:
            process.check()

    name = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    start = time.monotonic()
    with audience.busy(f"{name}: sent; " + ("starting the job on Spark" if first else "waiting for the job")):
        places = exchange.send(chapter)
        arrivals = exchange.receive(chapter.wanted, FIRST_TIMEOUT_S if first else TIMEOUT_S, check)
    seconds = time.monotonic() - start
    verdict = judge(chapter, places, arrivals)
    audience.chapter(verdict, seconds, with_start=first)
    return verdict


@contextmanager
def _one_signal_only() -> Iterator[None]:
    """Turns the first signal into an exception, so that everything is cleaned up. Further signals are ignored."""

    def end(number: int, _frame: FrameType | None) -> None:
        _ignore_signals()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
