"""A job: a processor on the engine, from its input topics to its output topics, until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from moneystate.job.base_job import BaseJob
from moneystate.job.batch_loop import BatchLoop
from moneystate.job.batch_writing import Report
from moneystate.job.failures import as_one_line
from moneystate.job.local_path import is_local
from moneystate.job.stages import stages
from moneystate.kafka.source_spec import SourceSpec
from moneystate.spark.jvm_signals import stop_with_jvm
from moneystate.spark.jvm_start import ARROW_ROWS, begin_jvm, under_spark_submit
from moneystate.spark.operator import RESULT_SCHEMA, KeyGroupOperator
from moneystate.spark.query_listener import SparkProgress
from moneystate.spark.running import Running, await_all
from moneystate.spark.session import begin_session, open_session, use_our_checkpoint_files
from moneystate.spark.sink import run_sink
from moneystate.spark.source import OPTION, MoneystateSource


class Job(BaseJob):
    """One run on Spark."""

    def log_file(self) -> Path | None:
        return None if under_spark_submit() else self.checkpoint.driver_log()

    def run(self) -> Report:
        """Run to the end, or until `stop`. Returns the last batch's report; raises MoneystateError."""
        return run_together([self])[0]

    def begin_spark(self, name: str) -> None:
        """The JVM, unless it has begun, and the session of this job and those that run with it."""
        o = self.options
        begin_jvm(o, self.own)
        begin_session(name, o.master, o.partitions, o.spark_config, self.own)

    def start(self, session: SparkSession) -> Running:
        """Begin the query, in a session of its own."""
        o = self.options
        if is_local(o.checkpoint):
            use_our_checkpoint_files(session)
        self._share_initial_state(session)
        session.dataSource.register(MoneystateSource)
        session.conf.set(ARROW_ROWS, 1)  # a row of results stands for megabytes, and the sink should get it at once
        source = self.specs.source(self.stop_file)
        blocks = session.readStream.format("moneystate").option(OPTION, source.to_json()).load()
        if o.partitions == o.source_tasks == 1:
            blocks = blocks.coalesce(1)  # one stage instead of two: Spark then knows that there is nothing to shuffle
        results = blocks.groupBy("key").transformWithState(self._operator(source), RESULT_SCHEMA, "Append", "None")
        self.loop = loop = BatchLoop(self, partial(run_sink, self.specs.sink()), source)
        writer = results.writeStream.foreachBatch(loop).option("checkpointLocation", self.checkpoint.folder.address)
        if o.bounded or o.finish_batch:
            writer = writer.trigger(availableNow=True)
        elif o.trigger_interval_s:
            writer = writer.trigger(processingTime=f"{o.trigger_interval_s} seconds")
        self.check_alone()
        if self.on_trigger:
            session.streams.addListener(SparkProgress(self.on_trigger))
        last = self.checkpoint.last_committed()
        running = Running(self, writer.start())
        self.health.started()
        self.on_start(last, self.checkpoint.epoch() or "")
        return running

    def _share_initial_state(self, session: SparkSession) -> None:
        """Lets Spark copy a savepoint from its store to the executors, which reach it with Spark's credentials only."""
        folder = self.specs.initial_folder()
        if folder and not is_local(folder):
            session.sparkContext.addFile(folder, recursive=True)

    def _operator(self, source: SourceSpec) -> KeyGroupOperator:
        o = self.options
        return KeyGroupOperator(
            self.spec.processors(o.formats),
            o.key_groups,
            o.partitions,
            self.spec.bounds(),
            self.specs.initial_folder(),
            {t.code: o.topic_prefix + t.name for t in self.spec.inputs},
            source if self.spec.copies_tables else None,
        )


def run_together(jobs: Sequence[Job]) -> list[Report]:
    """Run jobs in one Spark application until all have ended or are stopped. Returns each job's last report. If one job
    fails, the others finish their current batch and end. Raises the MoneystateError of the job that failed first."""
    is_whole = False
    _silence_py4j()
    try:
        jobs[0].begin_spark(", ".join(job.spec.name for job in jobs))
        for job in jobs:
            job.prepare()
            job.log = jobs[0].log
        reports = _run_spark_or_fail(jobs)
        is_whole = True
        return reports
    finally:
        for job in jobs:
            job.tell_end(is_whole)
            job.close()


def _run_spark_or_fail(jobs: Sequence[Job]) -> list[Report]:
    try:
        return _run_spark(jobs)
    except Exception as e:  # not `job.failure`: the job may only have been interrupted because another one failed
        failure = as_one_line(e, jobs[0].log)
        if all(job.failure is None for job in jobs):  # Spark did not start, or has died
            for job in jobs:
                job.failure = failure
        raise failure from e


def _run_spark(jobs: Sequence[Job]) -> list[Report]:
    first, o = jobs[0], jobs[0].options
    name = ", ".join(job.spec.name for job in jobs)
    session = open_session(name, o.master, o.partitions, o.spark_config, first.log, first.own)
    try:
        if under_spark_submit():
            stop_with_jvm(session, partial(_stop, jobs))
        for stage in stages(jobs):
            await_all([job.start(session if len(jobs) == 1 else session.newSession()) for job in stage])
            for job in stage:
                job.keep_watermark()
        return [job.last for job in jobs]
    finally:
        with contextlib.suppress(Exception):  # from a dead JVM: it must not hide the first error
            session.stop()


def _silence_py4j() -> None:
    """The error reports a JVM that has died; py4j would report it again, partly through the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger().addFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def _stop(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.stop()
