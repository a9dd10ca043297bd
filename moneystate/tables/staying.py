"""A loader that stays: loads again after a while, or when its file has changed, and says how it is.

A source or a broker that fails is tried again, and the rows stay as they are. Only another writer of the table ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moneystate.errors import InstanceError, MoneystateError
from moneystate.log import get_log
from moneystate.monitoring import Health, Pulse
from moneystate.tables.files import FileSource, Stamp
from moneystate.tables.loading import Ended, Load, Loader

_log = get_log(__name__)

POLL_S: Final = 0.5  # between two looks at a file
AGAIN_S: Final = (1.0, 60.0)  # between attempts after a failure, the first and the longest
PREFIX: Final = "moneystate_table_"


class Stopped(Protocol):
    def wait(self, timeout_s: float | None = None) -> bool: ...


class When(Protocol):
    """Decides when to load. What has failed is also tried again without it."""

    def is_due(self, now_s: float) -> bool: ...

    def begins(self, now_s: float) -> None:
        """A load begins."""


class Every:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._due_s: float | None = None

    def is_due(self, now_s: float) -> bool:
        return self._due_s is None or now_s >= self._due_s

    def begins(self, now_s: float) -> None:
        self._due_s = now_s + self._every_s


class Watching:
    """Loads when another file has the name, or the file has another size or time of change."""

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self._seen: Stamp | None = None  # None: there was no file
        self._is_first = True

    def is_due(self, now_s: float) -> bool:
        return self._is_first or self._source.stamp() != self._seen

    def begins(self, now_s: float) -> None:
        """A file that changes from now on is loaded again."""
        self._seen, self._is_first = self._source.stamp(), False


class Staying:
    """`pulse`: has the clock, in monotonic seconds."""

    def __init__(self, loader: Loader, when: When, stopped: Stopped, pulse: Pulse) -> None:
        self._loader = loader
        self._when = when
        self._stopped = stopped
        self._clock = pulse.clock
        self._pulse = pulse
        self.last: Load | None = None  # the last good one
        self.trouble = ""  # why the last attempt failed
        self.good = 0
        self.failed = 0
        self.changed = 0
        self.deleted = 0
        self._good_s = 0.0
        self._again_s: float | None = None  # when to try again what has failed
        self._wait_s = AGAIN_S[0]

    def run(self) -> None:
        """Loads until a signal. Raises InstanceError if another writer has taken over."""
        while True:
            self._pulse.beat()
            now_s = self._clock()
            if self._when.is_due(now_s) or (self._again_s is not None and now_s >= self._again_s):
                self._when.begins(now_s)
                self._pulse.end()  # a load may take long; the age of the last one says whether it does
                try:
                    self._take(self._loader.load())
                except Ended:
                    return
                except InstanceError:
                    raise
                except MoneystateError as e:
                    self._fail(e)
            if self._stopped.wait(POLL_S):
                return

    def _fail(self, error: MoneystateError) -> None:
        self.failed += 1
        self.trouble = str(error)
        self._again_s = self._clock() + self._wait_s
        _log.warning("the table is not loaded, its rows stay", why=str(error), again_in_s=self._wait_s)
        self._wait_s = min(2 * self._wait_s, AGAIN_S[1])

    def _take(self, load: Load) -> None:
        self._good_s = self._clock()
        self._again_s, self._wait_s = None, AGAIN_S[0]
        self.last, self.trouble = load, ""
        self.good += 1
        self.changed += load.counts.changed
        self.deleted += load.counts.deleted
        c = load.counts
        _log.info(
            "loaded", topic=self._loader.topic, rows=c.rows, changed=c.changed, deleted=c.deleted, skipped=load.skipped,
            source=load.source,
        )  # fmt: skip

    def age_s(self) -> float:
        """The time since the last good load."""
        return self._clock() - self._good_s

    def live(self) -> Health:
        return self._pulse.check()

    def ready(self) -> Health:
        if self.trouble:
            return Health(False, f"the last load failed: {self.trouble}")
        if self.last is None:
            return Health(False, "the table is being loaded for the first time")
        return Health(True, f"loaded {self.age_s():.0f} s ago")


class Metrics(Collector):
    """Collects what Prometheus reads."""

    def __init__(self, staying: Staying, topic: str) -> None:
        self._staying = staying
        self._topic = topic

    def collect(self) -> Iterable[Metric]:
        s = self._staying
        counters = [
            ("loads", "Loads that were committed.", s.good),
            ("failures", "Attempts that failed.", s.failed),
            ("changed_rows", "Rows that loads have written.", s.changed),
            ("deleted_rows", "Rows that loads have deleted.", s.deleted),
        ]
        for name, help, count in counters:
            counter = CounterMetricFamily(PREFIX + name, help, labels=["topic"])
            counter.add_metric([self._topic], count)
            yield counter
        if s.last is not None:
            gauges = [
                ("load_age_seconds", "Time since the last good load.", s.age_s()),
                ("rows", "Rows of the source at the last good load.", float(s.last.counts.rows)),
                ("skipped_rows", "Rows that the last good load left out.", float(s.last.skipped)),
            ]
            for name, help, value in gauges:
                gauge = GaugeMetricFamily(PREFIX + name, help, labels=["topic"])
                gauge.add_metric([self._topic], value)
                yield gauge
