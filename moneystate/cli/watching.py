"""The flags with which others can see what a job does: metrics and health, lineage, traces."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import MetricsFlags
from moneystate.cli.option import DURATION, Flags, Panel, flag
from moneystate.cli.options import Announce, Traces
from moneystate.errors import ConfigError
from moneystate.serving import addresses

if TYPE_CHECKING:
    from prometheus_client import Counter

    from moneystate.job.base_job import BaseJob
    from moneystate.kafka.announcements import Announcer

ANNOUNCE = "--announce"


@dataclass(frozen=True)
class Watching(Flags):
    """Raises ConfigError if metrics that are announced have no port."""

    metrics: MetricsFlags
    stalled_after: str = flag(
        "5m",
        "Not ready if the watermark stands for this long although records arrive, or a batch takes longer.",
        Panel.metrics, DURATION,
    )  # fmt: skip
    openlineage: bool = flag(
        False, "Send events of OpenLineage. OPENLINEAGE_URL or openlineage.yml says where.", Panel.telemetry
    )
    openlineage_interval: str = flag(
        "1m", "Least time between events of a run that goes on.", Panel.telemetry, DURATION
    )
    traces: Traces = False
    announce: Announce = ""

    def __post_init__(self) -> None:
        if self.announce:
            _check_announced(self.announce, self.metrics.metrics_port)

    @contextmanager
    def over(self, jobs: Sequence[BaseJob]) -> Iterator[None]:
        """While the jobs run. Raises ConfigError and SetupError before they start."""
        with ExitStack() as at_end:
            if self.openlineage:
                self._send_lineage(jobs, at_end)
            if self.traces:
                self._send_traces(jobs, at_end)
            self._expose(jobs)
            if self.announce:
                at_end.enter_context(self._announcer(jobs))
            yield

    def _expose(self, jobs: Sequence[BaseJob]) -> None:
        if not self.metrics.metrics_port:
            return
        from moneystate.monitoring import Labelled, all_of

        for job in jobs:
            job.on_trigger.append(job.metrics.trigger)
            job.health.stalled_after_s = parse_ms(self.stalled_after, "--stalled-after") / 1000
        live, ready = all_of([job.health.live for job in jobs]), all_of([job.health.ready for job in jobs])
        self.metrics.expose(Labelled({job.spec.name: job.metrics for job in jobs}), live, ready)

    def _announcer(self, jobs: Sequence[BaseJob]) -> Announcer:
        from moneystate.kafka.announcements import METRICS, Announcement, Announcer

        address = addresses.of_metrics(self.announce, self.metrics.metrics_host, self.metrics.metrics_port, ANNOUNCE)
        services, options = ",".join(job.spec.name for job in jobs), jobs[0].options
        its = Announcement(address, METRICS, services, socket.gethostname(), False)
        return Announcer(options.bootstrap_servers, options.kafka_config, options.topic_prefix, [its])

    def _send_lineage(self, jobs: Sequence[BaseJob], at_end: ExitStack) -> None:
        # here: otherwise every command would need and load OpenLineage's client
        from moneystate.job.lineage_events import LineageEvents, datasets_of
        from moneystate.telemetry.run_events import Client, RunEvents

        interval_s = parse_ms(self.openlineage_interval, "--openlineage-interval") / 1000
        for job in jobs:
            client = Client(_count(job.metrics.lineage_events))
            at_end.callback(client.close)
            events = RunEvents(datasets_of(job.spec, job.options), client, interval_s)
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


def _check_announced(announce: str, metrics_port: int) -> None:
    """Raises ConfigError."""
    addresses.announced(announce, metrics_port, ANNOUNCE)
    if not metrics_port:
        raise ConfigError(
            f"{ANNOUNCE} {announce}: expected --metrics-port as well, found none.", "a job announces its metrics."
        )
