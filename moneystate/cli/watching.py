"""The flags with which others can see what a job does: metrics and health, lineage, traces."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import MetricsFlags
from moneystate.cli.option import DURATION, Panel, option
from moneystate.cli.options import Announce, Openlineage, OpenlineageInterval, Traces
from moneystate.errors import ConfigError
from moneystate.serving import addresses

if TYPE_CHECKING:
    from prometheus_client import Counter

    from moneystate.job.base_job import BaseJob
    from moneystate.kafka.announcements import Announcer

ANNOUNCE = "--announce"


class Watching(NamedTuple):
    metrics: MetricsFlags
    stalled_after_s: float
    openlineage: bool
    openlineage_interval_s: float
    traces: bool
    announced: str  # HOST or HOST:PORT under which others find the metrics; empty: they are not announced

    @contextmanager
    def over(self, jobs: Sequence[BaseJob]) -> Iterator[None]:
        """While the jobs run. Raises ConfigError and SetupError before they start."""
        with ExitStack() as at_end:
            if self.openlineage:
                self._send_lineage(jobs, at_end)
            if self.traces:
                self._send_traces(jobs, at_end)
            self._expose(jobs)
            if self.announced:
                at_end.enter_context(self._announcer(jobs))
            yield

    def _expose(self, jobs: Sequence[BaseJob]) -> None:
        if not self.metrics.metrics_port:
            return
        from moneystate.monitoring import Labelled, all_of

        for job in jobs:
            job.on_trigger.append(job.metrics.trigger)
            job.health.stalled_after_s = self.stalled_after_s
        live, ready = all_of([job.health.live for job in jobs]), all_of([job.health.ready for job in jobs])
        self.metrics.expose(Labelled({job.spec.name: job.metrics for job in jobs}), live, ready)

    def _announcer(self, jobs: Sequence[BaseJob]) -> Announcer:
        from moneystate.kafka.announcements import METRICS, Announcement, Announcer

        address = addresses.of_metrics(self.announced, self.metrics.metrics_host, self.metrics.metrics_port, ANNOUNCE)
        services, options = ",".join(job.spec.name for job in jobs), jobs[0].options
        its = Announcement(address, METRICS, services, socket.gethostname(), False)
        return Announcer(options.bootstrap_servers, options.kafka_config, options.topic_prefix, [its])

    def _send_lineage(self, jobs: Sequence[BaseJob], at_end: ExitStack) -> None:
        # here: otherwise every command would need and load OpenLineage's client
        from moneystate.job.lineage_events import LineageEvents, datasets_of
        from moneystate.telemetry.run_events import Client, RunEvents

        for job in jobs:
            client = Client(_count(job.metrics.lineage_events))
            at_end.callback(client.close)
            events = RunEvents(datasets_of(job.spec, job.options), client, self.openlineage_interval_s)
            job.observers.append(LineageEvents(job.spec, job.options, events))

    def _send_traces(self, jobs: Sequence[BaseJob], at_end: ExitStack) -> None:
        # here: otherwise every command would need and load OpenTelemetry's SDK
        from moneystate.job.batch_traces import BatchTraces
        from moneystate.telemetry.traces import Traces

        for job in jobs:
            traces = Traces(job.spec.name, _count(job.metrics.spans))
            at_end.callback(traces.close)
            observer = BatchTraces(job.spec.name, traces)
            job.observers.append(observer)
            job.on_trigger.append(observer.trigger)


def _count(counter: Counter) -> Callable[[int, str], None]:
    return lambda number, result: counter.labels(result).inc(number)


def watching_options(
    metrics_flags: MetricsFlags,
    stalled_after: Annotated[
        str,
        option(
            "stalled-after",
            "Not ready if the watermark stands for this long although records arrive, or a batch takes longer.",
            Panel.metrics,
            DURATION,
        ),
    ] = "5m",
    openlineage: Openlineage = False,
    openlineage_interval: OpenlineageInterval = "1m",
    traces: Traces = False,
    announce: Announce = "",
) -> Watching:
    if announce:
        _check_announced(announce, metrics_flags.metrics_port)
    return Watching(
        metrics_flags,
        parse_ms(stalled_after, "--stalled-after") / 1000,
        openlineage,
        parse_ms(openlineage_interval, "--openlineage-interval") / 1000,
        traces,
        announce,
    )


def _check_announced(announce: str, metrics_port: int) -> None:
    """Raises ConfigError."""
    addresses.announced(announce, metrics_port, ANNOUNCE)
    if not metrics_port:
        raise ConfigError(
            f"{ANNOUNCE} {announce}: expected --metrics-port as well, found none.", "a job announces its metrics."
        )
