"""Tells OpenLineage what a job reads and writes (`moneystate.telemetry.run_events`)."""

from __future__ import annotations

from collections import Counter

from moneystate.errors import MoneystateError
from moneystate.job.failures import outline
from moneystate.job.observer import Ending, JobObserver
from moneystate.job.progress import BatchProgress
from moneystate.job.run_options import RunOptions
from moneystate.ports.service import JobSpec
from moneystate.telemetry.datasets import JobDatasets, Topic
from moneystate.telemetry.run_events import RunEvents


def datasets_of(spec: JobSpec, options: RunOptions) -> JobDatasets:
    """Nothing of the settings of Kafka or Spark, which may be secret."""
    prefix, schemas = options.topic_prefix, spec.topic_schemas()

    def topic(name: str) -> Topic:
        return Topic(prefix + name, schemas.get(name, ()))

    return JobDatasets(
        job=prefix + spec.name,
        brokers=options.bootstrap_servers,
        inputs=[topic(t.name) for t in spec.inputs],
        outputs=[topic(name) for name in [*spec.streams, spec.changelog]],
        changelog=prefix + spec.changelog,
    )


class LineageEvents(JobObserver):
    def __init__(self, spec: JobSpec, options: RunOptions, events: RunEvents) -> None:
        self.events = events
        self.prefix = options.topic_prefix
        self.changelog = spec.changelog
        self.read = Counter[str]()
        self.written = Counter[str]()

    def starting(self) -> None:
        self.events.start()

    def batch(self, progress: BatchProgress) -> None:
        for i in progress.inputs:
            self.read[self.prefix + i.topic] += i.records
        for name, number in {**progress.outputs_by_topic, self.changelog: progress.changes}.items():
            self.written[self.prefix + name] += number
        self.events.progress(self.read, self.written, str(progress.version))

    def ended(self, ending: Ending, failure: MoneystateError | None) -> None:
        if ending is Ending.completed:
            self.events.complete()
        elif ending is Ending.stopped:
            self.events.abort()
        else:
            self.events.fail("" if failure is None else outline(failure))
