"""Whether a job is alive and ready: it is not ready while its watermark stands although records arrive."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

from moneystate.job.progress import BatchProgress
from moneystate.monitoring import Health, Pulse

STALLED_AFTER_S = 300.0
WAITING_AFTER_S = 60.0
ADVICE = "Write heartbeats into quiet topics (moneystate heartbeat), or declare the inputs with time=ms.arrival."


class Stage(StrEnum):
    starting = "starting"
    running = "running"
    stopping = "stopping"
    ended = "ended"


class JobHealth:
    """The job's threads tell what happens, the endpoint's threads ask."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.clock = clock
        self.stalled_after_s = STALLED_AFTER_S
        self.pulse = Pulse(clock)
        self.stage = Stage.starting
        self.last: BatchProgress | None = None
        # When records arrived for the first and the last time since the watermark has moved.
        self.stands: tuple[float, float] | None = None
        self.running: tuple[int, float] | None = None  # the current batch, and when it began
        self.waits_since: float | None = None  # events are buffered, and the watermark has not moved
        self.on_waiting: Callable[[str], None] = _ignored
        self.has_told = False  # of this wait
        self.unloaded: list[str] = []  # partitions of tables whose first load has not ended

    # Events of the job

    def started(self) -> None:
        if self.stage is Stage.starting:
            self.stage = Stage.running

    def stopping(self) -> None:
        self.stage = Stage.stopping

    def ended(self) -> None:
        self.stage = Stage.ended
        self.pulse.end()

    def begin(self, number: int) -> None:
        self.running = number, self.clock()

    def loading(self, unloaded: list[str]) -> None:
        """Tells `on_waiting` about tables without a first load, once."""
        if unloaded and not self.unloaded:
            self.on_waiting(_loads(unloaded))
        self.unloaded = unloaded

    def beat(self) -> None:
        """The job's main loop is alive. Once for each wait, this tells `on_waiting` about events that wait long."""
        self.pulse.beat()
        waiting = self.waiting()
        if waiting and not self.has_told:
            self.has_told = True
            self.on_waiting(waiting)

    def end(self, p: BatchProgress) -> None:
        now = self.clock()
        if self._has_moved(p) or not p.buffered:
            self.waits_since, self.has_told = (now if p.buffered else None), False
        elif self.waits_since is None:
            self.waits_since = now
        if self._has_moved(p):
            self.stands = None
        elif any(i.records for i in p.inputs if i.partitions):
            self.stands = (now if self.stands is None else self.stands[0]), now
        self.last, self.running = p, None

    def _has_moved(self, p: BatchProgress) -> bool:
        if p.drained or p.watermark_ms is None:
            return p.drained
        return self.last is None or self.last.watermark_ms is None or p.watermark_ms > self.last.watermark_ms

    # Questions

    def standing_s(self) -> float:
        """The time for which records have arrived without moving the watermark."""
        stands = self.stands
        return 0.0 if stands is None else stands[1] - stands[0]

    def batch_running_s(self) -> float:
        running = self.running
        return 0.0 if running is None else self.clock() - running[1]

    def waiting(self) -> str:
        """Returns what to know of events that have waited for long, by the wall clock; empty: none has."""
        since, p = self.waits_since, self.last
        if since is None or p is None or self.clock() - since < WAITING_AFTER_S:
            return ""
        held = "all inputs are idle" if p.held_by is None else f"{p.held_by} holds the watermark back"
        events = "1 event has" if p.buffered == 1 else f"{p.buffered:,} events have"
        return f"{events} waited for {self.clock() - since:.0f} s: {held}. {ADVICE}"

    def live(self) -> Health:
        return self._of_this_job(self.pulse.check())

    def ready(self) -> Health:
        if self.stage is not Stage.running:
            return self._of_this_job(Health(self.stage is Stage.ended, self.stage))
        if self.unloaded:
            return self._of_this_job(Health(False, _loads(self.unloaded)))
        return self._of_this_job(self._moving())

    def _moving(self) -> Health:
        if self.standing_s() > self.stalled_after_s:
            return Health(False, f"records arrive, but the watermark stands for {self.standing_s():.0f} s{self._why()}")
        running, running_s = self.running, self.batch_running_s()
        if running is not None and running_s > self.stalled_after_s:
            return Health(False, f"batch {running[0]} runs for {running_s:.0f} s")
        waiting = self.waiting()
        return Health(True, f"ready; {waiting}" if waiting else "ready")

    def _why(self) -> str:
        p = self.last
        if p is None or p.held_by is None:
            return ""
        where = (
            "" if p.watermark_ms is None else f" at {datetime.fromtimestamp(p.watermark_ms / 1000, UTC).isoformat()}"
        )
        silent = ", which has had no record" if p.held_by in p.silent else ""
        return f"{where}: held by {p.held_by}{silent}"

    def _of_this_job(self, health: Health) -> Health:
        return Health(health.is_good, f"{self.name}: {health.text}")


def _loads(unloaded: list[str]) -> str:
    more = f" and {len(unloaded) - 1} more" if len(unloaded) > 1 else ""
    return (
        f"{unloaded[0]}{more}: waits for the end of the table's first load (moneystate table load), and reads no other "
        "input until then"
    )


def _ignored(_: str) -> None:
    pass
