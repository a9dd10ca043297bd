"""Shows a running job: one line that changes on a terminal, otherwise lines of the log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from moneystate import log
from moneystate.cli import core
from moneystate.cli.tables import fitting
from moneystate.engine.deadletter import COUNT_PREFIX
from moneystate.job.progress import BatchProgress
from moneystate.records import odd_times
from moneystate.replica.model import Version

LOG_EVERY_S = 10.0
RATE_BATCHES = 5
SHOWN_IDLE = 3
SHOWN_COUNTERS = 4  # of a service's own, those that have counted most


class Display:
    """Writes to stderr, because stdout is for results."""

    def __init__(self, quiet: bool, service: str, alone: bool = True, counters: Sequence[str] = ()) -> None:
        """`alone`: if not, several services run, which write lines and share no line that changes; `counters`: those
        that are shown at 0, too."""
        self.console = Console(stderr=True)
        self.quiet = quiet
        self.title = "" if alone else service
        self.log = log.get_log(__name__).bind(service=service)
        self.counters = counters
        self.recent: deque[BatchProgress] = deque(maxlen=RATE_BATCHES)
        self.last: BatchProgress | None = None
        self.records = 0
        self.outputs = 0
        self.live: Live | None = None
        self.logged_at = float("-inf")
        self.warned: set[str] = set()  # inputs with early event times

    def __enter__(self) -> Display:
        if not self.quiet and not self.title and self.console.is_terminal and not log.is_json():
            self.live = Live(f"starting Spark ({core.kind()} core)", console=self.console, refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def started(self, batch: int, epoch: str) -> None:
        """All checks are passed. `batch`: the last finished one; -1: none."""
        if not self.quiet and log.is_json():
            place = {} if batch < 0 else {"batch": batch, "version": str(Version(epoch, batch))}
            self.log.info("started", core=core.kind(), **place)

    def new_inputs(self, topics: list[str]) -> None:
        """Warns even without progress: with a mistyped prefix the job would wait for ever."""
        missing = f"{', '.join(topics)}: no such input topics, created empty."
        self.warning(f"{missing} If they should have records, check --topic-prefix.")

    def warning(self, text: str) -> None:
        self.log.warning(text)

    def publishing(self, entries: int) -> None:
        """Shows, before the first batch, how much of the initial state is in the changelog."""
        if self.live is not None:
            self.live.update(f"state to the changelog: {entries:,} entries")

    def batch(self, progress: BatchProgress) -> None:
        self.recent.append(progress)
        self._tell_idle(progress)
        self.last = progress
        self._warn_of_early(progress)
        self.records += progress.records
        self.outputs += progress.outputs
        if self.live is not None:
            self.live.update(self._table(progress))
        elif not self.quiet and time.monotonic() - self.logged_at >= LOG_EVERY_S:
            self.logged_at = time.monotonic()
            self._report("progress")
        if not self.quiet:
            seconds = round(progress.seconds, 3)
            self.log.debug(
                "batch", **_place(progress), records=progress.records, outputs=progress.outputs, seconds=seconds
            )

    def _warn_of_early(self, progress: BatchProgress) -> None:
        """Once for each input: a wrong unit makes every event early."""
        for topic, event in progress.early.items():
            if topic not in self.warned:
                self.warned.add(topic)
                self.warning(odd_times.warning(event.place, event.key, event.time_ms))

    def _tell_idle(self, p: BatchProgress) -> None:
        """Warns once when all inputs have become idle, because the wall clock then decides what is late."""
        before = self.last
        if before is None or not _all_idle(p) or _all_idle(before) or p.watermark_ms == before.watermark_ms:
            return
        released = max(0, before.buffered + sum(i.records for i in p.inputs if i.partitions) - p.buffered)
        self.warning(
            f"all inputs are idle: the watermark went on to {_time(p)}, which released {released:,} events. Earlier "
            "events that still come are late."
        )

    def _report(self, event: str, before: str = "", **more: Any) -> None:
        """The progress as a line: fields for programs, a text for people, which begins with `before`."""
        if log.is_json():
            assert self.last is not None
            self.log.info(event, **_place(self.last), **more, rate=round(self.rate()), **_state(self.last))
        else:
            self.log.info(before + self.line())

    def rate(self) -> float:
        """Records a second over the last batches."""
        return sum(p.records for p in self.recent) / max(sum(p.seconds for p in self.recent), 1e-9)

    def line(self) -> str:
        p = self.last
        assert p is not None
        parts = [f"batch {p.batch}", f"{self.rate():,.0f} records/s", f"watermark {_time(p)} {_lag(p)}".rstrip()]
        counts = [f"{name} {n:,}" for name, n in self._counts(p)]
        texts = [f"{name} {text}" for name, text in [*_oldest(p), *_partitions(p)]]
        return (f"{self.title}: " if self.title else "") + ", ".join([*parts, *counts, *texts])

    def _counts(self, p: BatchProgress) -> list[tuple[str, int]]:
        always = [("buffered", p.buffered), *[(name, p.count(name)) for name in self.counters]]
        letters = ("dead letters", sum(p.dead_letters().values()))
        return [*always, letters, *p.largest(SHOWN_COUNTERS, self.counters)]

    def _table(self, p: BatchProgress) -> RenderableType:
        cells: list[tuple[str, str]] = [
            ("batch", str(p.batch)),
            ("records/s", f"{self.rate():,.0f}"),
            ("watermark", _time(p)),
            ("lag", _lag(p)),
        ]
        cells += [(name, f"{n:,}") for name, n in self._counts(p)]
        cells += [*_oldest(p), *_partitions(p)]
        names = [name for name, _ in cells]
        return fitting(names, [[text for _, text in cells]], self.console.width, right=names)

    def goodbye(self, stands: bool) -> None:
        """The last line. `stands`: the run ended with its input, so a partition without a record holds everything
        back."""
        p = self.last
        if self.quiet or p is None:
            return
        read_and_written = f"{self.records:,} records read, {self.outputs:,} written; "
        self._report("ended", read_and_written, records=self.records, outputs=self.outputs)
        if stands and p.silent:
            self.log.warning(
                f"{', '.join(p.silent)}: no record yet, so the watermark is held and nothing is put out. Send it a "
                "record or a Heartbeat, or end the run with --drain."
            )

    def totals(self) -> dict[str, Any]:
        """The run in numbers, for `--json`. Counts are those of the checkpoint, records and outputs those of this
        run. Without any batch the counts are not known: null."""
        p = self.last
        return {
            "records": self.records,
            "outputs": self.outputs,
            "batch": None if p is None else p.batch,
            "watermark_ms": None if p is None else p.watermark_ms,
            "drained": None if p is None else p.drained,
            "buffered": None if p is None else p.buffered,
            "waiting": None if p is None else p.count("waiting"),
            "looking_up": None if p is None else p.count("looking_up"),
            "oldest_wait_ms": None if p is None else p.oldest_wait_ms,
            "duplicates": None if p is None else p.count("duplicates"),
            "late": None if p is None else p.count("late"),
            "dead_letters": None if p is None else p.dead_letters(),
            "silent_partitions": None if p is None else p.silent,
            "idle_partitions": None if p is None else p.idle,
            "loading_partitions": None if p is None else p.loading,
            "watermark_held_by": None if p is None else p.held_by,
        }


def _all_idle(p: BatchProgress) -> bool:
    return bool(p.idle) and p.held_by is None and not p.drained


def _place(p: BatchProgress) -> dict[str, Any]:
    return {"batch": p.batch, "version": str(p.version)}


def _state(p: BatchProgress) -> dict[str, Any]:
    """Returns where the job is, as fields of the log."""
    return {
        "watermark": _time(p),
        "buffered": p.buffered,
        "counts": {name: n for name, n in p.counts.items() if not name.startswith(COUNT_PREFIX)},
        "dead_letters": p.dead_letters(),
        "oldest_wait_ms": p.oldest_wait_ms,
        "held_by": p.held_by,
        "idle": p.idle,
        "loading": p.loading,
    }


def _oldest(p: BatchProgress) -> list[tuple[str, str]]:
    return [] if p.oldest_wait_ms is None else [("oldest wait", f"{p.oldest_wait_ms / 1000:.0f}s")]


def _partitions(p: BatchProgress) -> list[tuple[str, str]]:
    """The partition that holds the watermark back, and the idle ones."""
    held = [] if p.held_by is None or p.drained else [("held by", p.held_by)]
    if not p.idle:
        return held
    more = f" and {len(p.idle) - SHOWN_IDLE} more" if len(p.idle) > SHOWN_IDLE else ""
    return [*held, ("idle", " ".join(p.idle[:SHOWN_IDLE]) + more)]


def _time(p: BatchProgress) -> str:
    if p.watermark_ms is None:
        return "drained" if p.drained else "none yet"
    return datetime.fromtimestamp(p.watermark_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lag(p: BatchProgress) -> str:
    """Returns how far the watermark is behind the wall clock; empty for old data."""
    if p.watermark_ms is None:
        return ""
    seconds = time.time() - p.watermark_ms / 1000
    return f"{seconds:.1f}s" if seconds < 86_400 else f"{seconds / 86_400:.0f}d"
