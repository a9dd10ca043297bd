"""A loader of a table, an ingest server and a worker of deliveries, minute by minute, for the tests of their alerts."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from prometheus_client.registry import Collector

from moneystate.deliver.metrics import Metrics as DeliverMetrics
from moneystate.deliver.metrics import Standing
from moneystate.errors import SourceError
from moneystate.ingest.metrics import Metrics as IngestMetrics
from moneystate.monitoring import Pulse
from moneystate.tables.comparison import Counts
from moneystate.tables.loading import Load, Loader
from moneystate.tables.staying import Every, Metrics, Staying

TOPIC = "prices"


class Table:
    """A real `Staying` with a source that answers or fails."""

    def __init__(self, clock: Callable[[], float], every_s: float) -> None:
        self.fails = False
        self._staying = Staying(cast(Loader, self), Every(every_s), self, Pulse(clock))
        self.metrics: Collector = Metrics(self._staying, TOPIC)
        self.topic = TOPIC

    def minute(self) -> None:
        self._staying.run()

    def load(self) -> Load:
        if self.fails:
            raise SourceError("prices.csv: expected a file, but found none.", "put it there.")
        return Load(Counts(rows=3, changed=1, deleted=0, known=3), 0, "prices.csv", 0)

    def wait(self, timeout_s: float | None = None) -> bool:
        """As `Stopped`: one look, and the run ends."""
        return True


class Deliver:
    """Real metrics of a worker of deliveries."""

    def __init__(self) -> None:
        self.behind_s, self.is_scarce = 0.0, False
        self.metrics = DeliverMetrics(self._standing)

    def _standing(self) -> Standing:
        return Standing(1, 5, 5, 0, 10, self.is_scarce, self.behind_s, [("e1", 5)])

    def minute(self, messages: int, dead: int, aborted: int) -> None:
        self.metrics.outcomes.labels("DELIVERED").inc(messages - dead)
        self.metrics.outcomes.labels("DEAD").inc(dead)
        self.metrics.transactions.labels("committed").inc()
        self.metrics.transactions.labels("aborted").inc(aborted)


class Ingest:
    """Real metrics of requests that are answered, refused or slow."""

    def __init__(self) -> None:
        self.reaches_kafka = True
        self.metrics = IngestMetrics()
        self.metrics.watch("kafka_reached", "1: Kafka answers.", lambda: float(self.reaches_kafka))

    def minute(self, requests: int, refused: int, seconds: float) -> None:
        for n in range(requests):
            if n < refused:
                self.metrics.request(TOPIC, "QUEUE_FULL")
            else:
                self.metrics.request(TOPIC, "202")
                self.metrics.written(TOPIC, 1, seconds)
