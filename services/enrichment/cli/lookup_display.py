"""Shows the progress of a lookup worker: one changing line on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live

from moneystate.cli.display import LOG_EVERY_S
from services.enrichment.lookup.metrics import Metrics
from services.enrichment.lookup.wire import Outcome
from services.enrichment.lookup.worker import Worker

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
        if not self.quiet and self.console.is_terminal:
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
            print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        totals = self.metrics.totals
        (then, before), (now, done) = self.history[0], self.history[-1]
        parts = [
            f"{done:,} of {done + len(self.worker.waiting):,} replies",
            f"{(done - before) / max(now - then, 1e-9):,.0f}/s",
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
