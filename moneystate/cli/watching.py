"""The flags with which a job's metrics can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moneystate.cli.options import MetricsHost, MetricsPort
from moneystate.monitoring import Labelled, expose
from moneystate.spark.job import Job


class Watching(NamedTuple):
    host: str
    port: int  # 0: nobody watches

    def begin(self, jobs: Sequence[Job]) -> None:
        """Called before the jobs start. Raises SetupError."""
        if not self.port:
            return
        for job in jobs:
            job.metrics.is_exposed = True
        expose(self.host, self.port, Labelled({job.spec.name: job.metrics for job in jobs}))


def watching_options(metrics_port: MetricsPort = 0, metrics_host: MetricsHost = "127.0.0.1") -> Watching:
    return Watching(metrics_host, metrics_port)
