"""Shows long work on the terminal: done, total and a rate for each phase; occasional lines if the output is not a
terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from moneystate.savepoint.format import partial

LOG_EVERY_S = 10.0
POLL_S = 0.3
PHASE = "key groups"


class WorkProgress:
    """Writes to stderr, because stdout is for results."""

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self.quiet = quiet
        self.bar = None
        if not quiet and console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
            )
            self.bar = Progress(*columns, TimeElapsedColumn(), console=console)
        self.phases: dict[str, tuple[float, int]] = {}  # when each phase began, and how much of it was done by then
        self.bars: dict[str, TaskID] = {}
        self.logged_at = time.monotonic()

    def __enter__(self) -> WorkProgress:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, phase: str, done: int, total: int) -> None:
        """`total` 0: it is not known."""
        now = time.monotonic()
        began, before = self.phases.setdefault(phase, (now, done))
        rate = f"{(done - before) / (now - began):,.0f}/s" if done > before else ""
        if self.bar is not None:
            if phase not in self.bars:
                self.bars[phase] = self.bar.add_task(phase, total=total or None, rate="")
            self.bar.update(self.bars[phase], completed=done, total=total or None, rate=rate)
        elif not self.quiet and (now - self.logged_at >= LOG_EVERY_S):
            self.logged_at = now
            out_of = f" of {total:,}" if total else ""
            print(f"{phase}: {done:,}{out_of} {rate}".rstrip(), file=sys.stderr, flush=True)


@contextmanager
def counting(out: Path, total: int, quiet: bool) -> Iterator[None]:
    """Shows how many key groups are written. It counts their files, because Spark's tasks write them."""
    over = threading.Event()
    with WorkProgress(quiet) as progress:

        def count() -> None:
            while not over.wait(POLL_S):
                progress.show(PHASE, len(list((partial(out) / "state").glob("*.avro"))), total)

        counter = threading.Thread(target=count, daemon=True)
        counter.start()
        try:
            yield
            progress.show(PHASE, total, total)
        finally:
            over.set()
            counter.join()
