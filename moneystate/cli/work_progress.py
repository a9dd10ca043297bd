"""Shows long work on the terminal: done, total and a rate for each phase; occasional lines if the output is not a
terminal.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

LOG_EVERY_S = 10.0


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
