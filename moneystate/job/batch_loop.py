"""What runs for each batch of a job in the driver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs, place_text
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.engine.plan import Plan
from moneystate.errors import MoneystateError, StepError
from moneystate.job import startup
from moneystate.job.batch_writing import Report
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.failures import as_one_line, place
from moneystate.job.health import JobHealth
from moneystate.job.metrics import JobMetrics
from moneystate.job.observer import FailedBatch, JobObserver
from moneystate.job.progress import BatchProgress, Meter
from moneystate.job.run_options import RunOptions
from moneystate.kafka.arrivals import due_by_clock
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.groups import GroupProgress
from moneystate.kafka.markers import read_markers
from moneystate.kafka.put_out import PutOut
from moneystate.kafka.sink import BatchId
from moneystate.kafka.source_spec import SourceSpec
from moneystate.kafka.table_loads import unloaded
from moneystate.ports.service import JobSpec
from moneystate.records.iso_time import from_ms
from moneystate.replica.model import Version


class BatchJob(Protocol):
    """The job whose batches these are."""

    spec: JobSpec
    options: RunOptions
    checkpoint: Checkpoint
    on_batch: Callable[[BatchProgress], None]
    on_warning: Callable[[str], None]
    health: JobHealth
    metrics: JobMetrics
    observers: list[JobObserver]
    failure: MoneystateError | None
    log: Path | None  # where Spark prints


class BatchLoop:
    """The function for `foreachBatch`. When it is called, the batch's offsets are in the checkpoint."""

    def __init__(self, job: BatchJob, write: Callable[[Any, BatchId], Report], source: SourceSpec) -> None:
        """`write`: writes a batch's results, which the loop only passes on. `source`: names the files that it writes
        for the planner."""
        self.job = job
        self.drain_complete_file = Path(source.drain_complete_file)
        self.due_file = Path(source.due_file)
        self.put_out = PutOut(Path(source.put_out_file))
        self.write = write
        self.last = Report()
        self.finished = -1  # the last batch of this run
        self.has_decided = False  # whether a plan of this run has advanced the watermark by more than the logs
        self.inputs = Inputs(job.spec.inputs)
        self.has_arrivals = any(t.arrival for t in job.spec.inputs)
        self.meter = Meter(job.spec.bounds())
        o = job.options
        self.group = GroupProgress(o.bootstrap_servers, o.kafka_config, o.application(), o.topic_prefix)
        last = plans.from_offset(job.checkpoint.offset(job.checkpoint.last_committed()))
        self.group.commit(last)
        job.health.loading([place_text(tp) for tp in sorted(unloaded(last, job.spec.inputs))])

    def __call__(self, results: Any, number: int) -> None:
        begun_ns = time.time_ns()
        try:
            self._batch(results, number)
        except Exception as e:
            failure = self.job.failure = self.job.failure or self._with_written_part(as_one_line(e, self.job.log))
            epoch = self.job.checkpoint.epoch() or ""
            about = {"service": self.job.spec.name, "batch": number, "version": str(Version(epoch, number))}
            failure.about = {**about, **place(failure)}
            for observer in self.job.observers:
                observer.batch_failed(FailedBatch(number, epoch, begun_ns, time.time_ns(), failure))
            raise

    def _with_written_part(self, failure: MoneystateError) -> MoneystateError:
        """Adds to a step's error which output partitions have written the batch: whoever fixes the step must know."""
        o, checkpoint = self.job.options, self.job.checkpoint
        if not isinstance(failure, StepError):
            return failure
        with contextlib.suppress(MoneystateError):  # the broker is unreachable: the next start reports it
            markers = read_markers(o.bootstrap_servers, o.kafka_config, o.topic_prefix + self.job.spec.commits)
            return StepError(f"{failure} {startup.written_part(checkpoint, markers)}".rstrip())
        return failure

    def _batch(self, results: Any, number: int) -> None:
        self.job.health.begin(number)
        checkpoint = self.job.checkpoint
        start, end = checkpoint.offset(number - 1), checkpoint.offset(number)
        epoch = checkpoint.epoch()
        assert epoch is not None
        failpoint("planned", number)
        report = self.write(results, BatchId(epoch, number, plans.digest(start), plans.digest(end)))
        failpoint("sunk", number)
        self.last = report
        if report.behind:
            checkpoint.keep_watermark(number - 1, report.before)
        before, after = plans.from_offset(start), plans.from_offset(end)
        self._tell_due(report, after)
        if after.drain:
            self._drained(number, report)
        self.group.commit(after)
        by_topic = {self.job.spec.streams[stream]: n for stream, n in report.by_stream.items()}
        measured = self.meter.measure(number, before, after, report, self.job.spec.inputs)
        self.put_out.add(measured.records, report.output_bytes)
        progress = replace(measured, epoch=epoch, outputs_by_topic=by_topic)
        self.finished = number
        self.job.health.loading(progress.loading)
        self.has_decided = self.has_decided or after.decides()
        self.job.health.end(progress)
        self.job.metrics.batch(progress)
        for observer in self.job.observers:
            observer.batch(progress)
        self.job.on_batch(progress)
        if after.drain_to() != before.drain_to():
            self._say_what_is_left(after, report)

    def _say_what_is_left(self, after: Plan, report: Report) -> None:
        if after.drain_until_ms is None:
            return
        until = from_ms(after.drain_until_ms)
        if report.watermark > after.drain_to():
            self.job.on_warning(
                f"--drain-until {until}: the watermark had already passed this time, so the drain has run nothing."
            )
        if report.buffered:
            self.job.on_warning(
                f"--drain-until {until}: later events wait and have not been processed ({report.buffered:,}). A start "
                "with a later --drain-until processes them."
            )

    def keep_watermark(self) -> None:
        if self.has_decided and NO_TIME < self.last.watermark < END_OF_TIME:
            self.job.checkpoint.keep_watermark(self.finished, self.last.watermark)

    def _tell_due(self, report: Report, after: Plan) -> None:
        """The planner, in a process of its own, reads the file between batches."""
        if self.has_arrivals:
            clocks = {place: after.partitions[tp].clock_ms for place, tp in self.inputs.names(after.partitions).items()}
            written = self.due_file.with_suffix(".tmp")
            written.write_text(str(due_by_clock(report.due, report.holder, clocks)))
            written.rename(self.due_file)

    def _drained(self, number: int, report: Report) -> None:
        """Record how many requests are open: for a later start, and for the planner, which reads replies until none
        is."""
        pending_counter = self.job.spec.pending_counter
        open_requests = 0 if pending_counter is None else report.counts.get(pending_counter, 0)
        self.job.checkpoint.save_open_requests(number, open_requests)
        if not open_requests:
            self.drain_complete_file.touch()
