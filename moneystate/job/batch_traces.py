"""A trace for each batch, made of the figures that the metrics have: a span for the batch, and one for each phase.

The durations are measured. Where a phase begins follows from the order of phases, because tasks report durations only:

    plan   checkpoint        source   operator   ...   sink   commit   checkpoint
    |------|--|              |--------|----------|     |------|--------|--|
    from the beginning       from the call of the sink  up to its end

Output partitions run side by side, and each phase is that of its slowest task. So `operator` and `sink` may overlap.
"""

from __future__ import annotations

from typing import Final

from moneystate.job.failures import outline
from moneystate.job.observer import FailedBatch, JobObserver, Trigger
from moneystate.job.progress import BatchProgress
from moneystate.replica.model import Version
from moneystate.telemetry.spans import Attributes, Span
from moneystate.telemetry.traces import Traces

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
MOST_WAITING: Final = 10  # batches whose durations Spark has not told yet: usually one
BATCH: Final = "batch"


class BatchTraces(JobObserver):
    """`batch` comes from the batch itself, `trigger` a moment later from Spark's listener thread."""

    def __init__(self, service: str, traces: Traces) -> None:
        self.service = service
        self.traces = traces
        self.waiting: dict[int, BatchProgress] = {}

    def batch(self, progress: BatchProgress) -> None:
        if len(self.waiting) < MOST_WAITING:
            self.waiting[progress.batch] = progress

    def trigger(self, trigger: Trigger) -> None:
        progress = self.waiting.pop(trigger.batch, None)
        if progress is not None:
            self.traces.record(batch_span(self.service, progress, trigger))

    def batch_failed(self, failed: FailedBatch) -> None:
        about = _about(self.service, Version(failed.epoch, failed.batch))
        self.traces.record(Span(BATCH, failed.begun_ns, failed.ended_ns, about, error=outline(failed.failure)))


def batch_span(service: str, p: BatchProgress, trigger: Trigger) -> Span:
    d, f = trigger.durations_ms, p.figures
    begun, ended = trigger.begun_ns, trigger.begun_ns + d["triggerExecution"] * NS_PER_MS
    planned = begun + d.get("latestOffset", 0) * NS_PER_MS
    logged = planned + d.get("walCommit", 0) * NS_PER_MS
    last_logged = ended - d.get("commitOffsets", 0) * NS_PER_MS
    called = max(logged, last_logged - d["addBatch"] * NS_PER_MS)
    read = called + round(f.source_s * NS_PER_S)
    produced = last_logged - round(f.commit_s * NS_PER_S)
    phases = [
        Span("plan", begun, planned),
        Span("checkpoint", planned, logged, {"moneystate.file": "offsets"}),
        Span("source", called, read),
        Span("operator", read, read + round(f.operator_s * NS_PER_S)),
        Span("sink", produced - round(f.sink_s * NS_PER_S), produced),
        Span("commit", produced, last_logged),
        Span("checkpoint", last_logged, ended, {"moneystate.file": "commits"}),
    ]
    about = {
        **_about(service, p.version),
        "moneystate.records": p.records,
        "moneystate.outputs": p.outputs,
        "moneystate.state_changes": p.changes,
        "moneystate.buffered": p.buffered,
    }
    return Span(BATCH, begun, ended, about, phases)


def _about(service: str, version: Version) -> Attributes:
    return {"moneystate.service": service, "moneystate.batch": version.batch, "moneystate.version": str(version)}
