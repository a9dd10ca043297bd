"""Shows the progress of a lookup worker: one changing line on a terminal, otherwise lines of the log."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.live import Live

from moneystate import log
from moneystate.cli.display import LOG_EVERY_S
from moneystate.lookup.metrics import Metrics
from moneystate.lookup.wire import Outcome
from moneystate.lookup.worker import Worker

_log = log.get_log(__name__)

RATE_S = 5.0  # the rate is an average of the last five seconds


class LookupDisplay:
    """Shows the progress on stderr, because stdout is for results."""

    def __init__(self, worker: Worker, metrics: Metrics, quiet: bool) -> None:
        self.worker = worker
        self.metrics = metrics
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.live: Live | None = None
        self.logged_at = time.monotonic()
        self.history: list[tuple[float, int]] = [(time.monotonic(), 0)]  # time, number of replies

    def __enter__(self) -> LookupDisplay:
        if not self.quiet and self.console.is_terminal and not log.is_json():
            self.live = Live("reading the replies so far", console=self.console, refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self) -> None:
        now = time.monotonic()
        recent = [(counted_at, n) for counted_at, n in self.history if now - counted_at <= RATE_S]
        self.history = [*recent, (now, self._done())]
        if self.live is not None:
            self.live.update(self.line())
        elif not self.quiet and now - self.logged_at >= LOG_EVERY_S:
            self.logged_at = now
            if log.is_json():
                _log.info("progress", **self._fields())
            else:
                _log.info(self.line())

    def _rate(self) -> float:
        (then, before), (now, done) = self.history[0], self.history[-1]
        return (done - before) / max(now - then, 1e-9)

    def _fields(self) -> dict[str, Any]:
        worker = self.worker
        return {
            **self.totals(),
            "waiting": len(worker.waiting),
            "rate": round(self._rate()),
            "breaker": str(worker.breaker.state),
            "oldest_s": round(worker.oldest_s(), 1),
        }

    def line(self) -> str:
        totals, done = self.metrics.totals, self._done()
        parts = [
            f"{done:,} of {done + len(self.worker.waiting):,} replies",
            f"{self._rate():,.0f}/s",
            *(f"{outcome.name.lower()} {totals[outcome]:,}" for outcome in Outcome),
            f"calls {self.metrics.calls:,}",
            f"breaker {self.worker.breaker.state}",
            f"oldest {self.worker.oldest_s():.1f}s",
        ]
        return ", ".join(parts)

    def totals(self) -> dict[str, Any]:
        """The totals of the run, for `--json`."""
        by_name = {outcome.name.lower(): n for outcome, n in self.metrics.totals.items()}
        return {"replies": self._done(), **by_name, "calls": self.metrics.calls}

    def _done(self) -> int:
        return sum(self.metrics.totals.values())
