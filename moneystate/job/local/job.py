"""A job whose batches run in this process.

The steps of a batch, and what a crash after each leaves:

1. *planned*: the plan is in the checkpoint. The next start runs the same batch.
2. *sunk*: each output partition has its transaction with the batch's marker. The batch runs again on the state from
   before it, and the sink finds the markers and writes nothing.
3. *stored*: the state and the batch's number are in the store, in one write. The next start finishes the batch without
   running it.
4. *finished*: the checkpoint says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from moneystate.engine import plan as plans
from moneystate.engine.block import Block, merge
from moneystate.engine.failure import StepFailed, step_error
from moneystate.engine.keygroup import run_batch
from moneystate.job.base_job import BaseJob
from moneystate.job.batch_loop import BatchLoop
from moneystate.job.batch_writing import Report, write_batch
from moneystate.job.collector import no_collection
from moneystate.job.failures import as_one_line
from moneystate.job.figures import GroupFigures
from moneystate.job.group_results import GroupResult, Result, group_result
from moneystate.job.local.store import FOLDER, LocalStore
from moneystate.job.source_reading import plan_reads, read_blocks
from moneystate.job.stages import stages
from moneystate.job.table_feed import give_tables
from moneystate.kafka.convert import converters
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.planner import Planner
from moneystate.kafka.sink import BatchId
from moneystate.kafka.source_spec import SourceSpec, load_decoder
from moneystate.savepoint.load import load

POLL_S: Final = 0.02  # between two looks for new records
PLANS_KEPT: Final = 100

Batch = tuple[plans.Plan, plans.Plan]  # start and end


class LocalJob(BaseJob):
    """`start`, then `turn` until it `is_over`, then `end`."""

    def start(self) -> None:
        self.check_alone()
        source = self.specs.source(self.stop_file)
        self.source = replace(source, source_tasks=1)
        self.sink = self.specs.sink()
        self.make = self.spec.processors(self.options.formats)
        self.topics = {t.code: self.options.topic_prefix + t.name for t in self.spec.inputs}
        self.planner = _planner(source)
        self.store = LocalStore(Path(self.options.checkpoint) / FOLDER)
        self.loop = BatchLoop(self, self._write, source)
        self.is_over = False
        self.next_at = 0.0  # when the next batch may begin
        if self.is_bounded:
            self.planner.fix_target()
        self.health.started()
        self.on_start(self.checkpoint.last_committed(), self.checkpoint.epoch() or "")

    @property
    def is_bounded(self) -> bool:
        return self.options.bounded or self.options.finish_batch

    def turn(self) -> bool:
        """Runs the next batch. False: there is none now. Raises MoneystateError."""
        self.health.beat()
        self.check_alone()
        if not self.is_bounded and time.monotonic() < self.next_at and not self.is_stopped:
            return False
        number = self._next()
        if number is None:
            self.is_over = self.is_bounded or self.stopped_file.exists()
            return False
        self.next_at = time.monotonic() + self.options.trigger_interval_s
        self._run(number)
        return True

    def end(self) -> None:
        self.keep_watermark()
        self.store.close()
        self.health.ended()

    def _next(self) -> int | None:
        """The number of the batch that is planned and not finished, or of the one that follows; None: there is none."""
        checkpoint = self.checkpoint
        last, planned = checkpoint.last_committed(), checkpoint.last_planned()
        if planned > last:
            return planned
        start = checkpoint.offset(last)
        end = self.planner.next_offset(start)
        if end == start:
            return None
        checkpoint.plan(last + 1, end)
        return last + 1

    def _run(self, number: int) -> None:
        assert self.loop is not None
        checkpoint = self.checkpoint
        if self.store.batch < number:
            start, end = (plans.from_offset(checkpoint.offset(n)) for n in (number - 1, number))
            self.store.forget()
            self.loop((start, end), number)
            self.store.commit(number)
            failpoint("stored", number)
        checkpoint.finish(number, PLANS_KEPT)

    def _write(self, batch: Batch, name: BatchId) -> Report:
        """Reads a batch, runs its key groups, and writes what they put out."""
        begun = time.monotonic()
        groups, partitions = self.options.key_groups, self.options.partitions
        [reads] = plan_reads(*batch, self.source)
        blocks = read_blocks(self.source, reads, {0})
        source_ms = round((time.monotonic() - begun) * 1000)
        first = merge([blocks[0]])  # it has the marks, and how far tables are read, for all key groups
        processor, initial = self._processor(first), self.specs.initial_folder()
        report = Report()
        for partition in range(partitions):
            results: list[Result] = []
            with no_collection():
                for group in range(partition, groups, partitions):
                    block = merge([blocks[group]]) if group else first
                    block.take_marks(first)
                    results.append(self._group(group, block, processor, initial, source_ms))
            report.merge(write_batch(self.sink, partition, name, partial(iter, results)))
        return report

    def _processor(self, first: Block) -> Any:
        processor = self.make()
        if self.spec.copies_tables:
            give_tables(processor, self.specs.instance, self.source).advance(first.tables)
        return processor

    def _group(self, group: int, block: Block, processor: Any, initial: str, source_ms: int) -> GroupResult:
        begun, state = time.monotonic(), self.store.group(group)
        if initial:
            load(initial, group, state)
        try:
            result = run_batch(block, state, processor, self.spec.bounds())
        except StepFailed as e:
            raise step_error(e, self.topics) from e
        return group_result(group, result, GroupFigures(source_ms, time.monotonic() - begun))


def _planner(source: SourceSpec) -> Planner:
    s = source
    converts = converters(s.formats, s.inputs, s.registry_url, id_wait_s=0.0, service=s.service)
    return Planner(s, load_decoder(s.decoder), converts)


def run_local(jobs: Sequence[LocalJob]) -> list[Report]:
    """Runs jobs in this process, by turns, until all have ended or are stopped. Returns each job's last report. Raises
    the MoneystateError of the first job that fails; the others have finished their current batch."""
    is_whole = False
    try:
        for job in jobs:
            job.prepare()
        for stage in stages(jobs):
            _run_stage(stage)
        is_whole = True
        return [job.last for job in jobs]
    finally:
        for job in jobs:
            job.tell_end(is_whole)
            job.close()


def _run_stage(jobs: Sequence[LocalJob]) -> None:
    started: list[LocalJob] = []
    try:
        for job in jobs:
            _told(job, job.start)
            started.append(job)
        while left := [job for job in jobs if not job.is_over]:
            if not sum(_told(job, job.turn) for job in left):
                time.sleep(POLL_S)
    finally:
        for job in started:
            job.end()


def _told(job: LocalJob, step: Any) -> bool:
    """Runs a step of a job, whose error is the job's failure."""
    try:
        return bool(step())
    except Exception as e:
        job.failure = job.failure or as_one_line(e)
        raise job.failure from e
