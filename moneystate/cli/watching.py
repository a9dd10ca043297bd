"""The flags with which a job's metrics and health can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from moneystate.cli.durations import parse_ms
from moneystate.cli.option import DURATION, Panel, option
from moneystate.cli.options import MetricsHost, MetricsPort
from moneystate.monitoring import Labelled, all_of, expose
from moneystate.spark.job import Job


class Watching(NamedTuple):
    host: str
    port: int  # 0: nobody watches
    stalled_after_s: float

    def begin(self, jobs: Sequence[Job]) -> None:
        """Called before the jobs start. Raises SetupError."""
        if not self.port:
            return
        for job in jobs:
            job.metrics.is_exposed = True
            job.health.stalled_after_s = self.stalled_after_s
        live, ready = all_of([job.health.live for job in jobs]), all_of([job.health.ready for job in jobs])
        expose(self.host, self.port, Labelled({job.spec.name: job.metrics for job in jobs}), live, ready)


def watching_options(
    metrics_port: MetricsPort = 0,
    metrics_host: MetricsHost = "127.0.0.1",
    stalled_after: Annotated[
        str,
        option(
            "stalled-after",
            "Not ready if the watermark stands for this long although records arrive, or a batch takes longer.",
            Panel.metrics,
            DURATION,
        ),
    ] = "5m",
) -> Watching:
    return Watching(metrics_host, metrics_port, parse_ms(stalled_after, "--stalled-after") / 1000)
