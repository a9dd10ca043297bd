"""A job: a processor on the engine, from its input topics to its output topics, until it is told to stop.

The order of a start: look at everything (broker, checkpoint, topics, markers) and write nothing; then create what is
missing; then run. An error before the second step leaves no trace.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from moneystate.engine import plan as plans
from moneystate.errors import MoneystateError, StepError
from moneystate.kafka import claims
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.convert import writers
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.groups import GroupProgress
from moneystate.kafka.markers import final_markers, read_markers
from moneystate.kafka.publish import EmptyInitialState, Publisher
from moneystate.kafka.sink import BatchId, SinkConfig
from moneystate.kafka.sizes import producer_bytes
from moneystate.kafka.source_spec import SourceSpec
from moneystate.kafka.starting import resolve_start
from moneystate.kafka.topics import (
    AS_THE_BROKER,
    Replication,
    TopicSpec,
    check_not_compacted,
    check_topics,
    ensure_topics,
    partition_counts,
)
from moneystate.ports.service import JobSpec, Stream
from moneystate.savepoint.format import Savepoint
from moneystate.spark import initial, startup
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.failures import as_one_line
from moneystate.spark.jvm_signals import stop_with_jvm
from moneystate.spark.local_path import spark_path
from moneystate.spark.operator import RESULT_SCHEMA, KeyGroupOperator
from moneystate.spark.progress import BatchProgress, Meter
from moneystate.spark.run_folder import RunFolder, local_dirs
from moneystate.spark.running import Running, await_all
from moneystate.spark.session import ARROW_ROWS, open_session, under_spark_submit
from moneystate.spark.sink import Report, SinkSpec, run_sink
from moneystate.spark.source import OPTION, MoneystateSource


@dataclass(frozen=True)
class RunOptions:
    """How a job runs; nothing here decides results, but `formats` what its topics hold. Seconds where the name says
    so. `rewrite`: read nothing, but in so many batches bring the state to this version."""

    bootstrap_servers: str
    checkpoint: str
    topic_prefix: str = ""
    application_id: str = ""
    bounded: bool = False
    drain: bool = False
    replies_s: float = 600.0
    idle_timeout_s: float = 30.0
    starting_offsets: str = "earliest"
    new_epoch: bool = False
    initial_state: str = ""
    initial_offsets: str = ""
    finish_batch: bool = False
    key_groups: int = 64
    partitions: int = 4
    max_records: int = 200_000
    trigger_interval_s: float = 0.0
    formats: dict[str, str] = field(default_factory=dict)
    registry_url: str | None = None
    master: str | None = None
    create_topics: bool = True
    topic_partitions: int = 4
    replication: Replication = AS_THE_BROKER
    kafka_config: dict[str, str] = field(default_factory=dict)
    spark_config: dict[str, str] = field(default_factory=dict)
    source_tasks: int = 2
    pipelined: bool = True
    rewrite: tuple[int, int] | None = None

    def application(self) -> str:
        """Known to a `Job`."""
        return self.application_id


class Job:
    """One run. `stop` may be called from a signal handler. `precheck`: called before the first batch, for a refusal
    that needs Spark."""

    def __init__(
        self,
        spec: JobSpec,
        options: RunOptions,
        on_batch: Callable[[BatchProgress], None],
        precheck: Callable[[SparkSession], None] = lambda _: None,
        on_publish: Callable[[int], None] = lambda _: None,
        on_new_inputs: Callable[[list[str]], None] = lambda _: None,
        on_warning: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_publish`: told how many entries of the state that a checkpoint begins with are in the changelog;
        `on_new_inputs`: told which input topics were missing and have been created; `on_warning`: what a
        person should know before the first batch."""
        self.spec = spec
        application_id = options.application_id or spec.application_id(options.topic_prefix)
        self.options = options = replace(options, application_id=application_id)
        self.on_batch = on_batch
        self.precheck = precheck
        self.on_publish = on_publish
        self.on_new_inputs = on_new_inputs
        self.on_warning = on_warning
        self.initial: Savepoint | None = None
        self.checkpoint = Checkpoint(options.checkpoint)
        job = f"{self.checkpoint.root} {options.application()}"
        self.own = RunFolder(local_dirs(options.spark_config), job)
        self.instance = uuid.uuid4().hex
        self.watch: claims.Watch | None = None
        self.stop_file = self.own.path / "stop"
        self.stopped_file = self.own.path / "stop.seen"
        self.failure: MoneystateError | None = None
        self.loop: _BatchLoop | None = None
        self.timed: dict[int, int] = {}  # streams, and how many partitions each has
        self.log = None if under_spark_submit() else self.checkpoint.own / "driver.log"  # where Spark prints

    def stop(self) -> None:
        """Finish the batch in hand and end."""
        self.stop_file.touch()

    @property
    def last(self) -> Report:
        """The report of the last batch."""
        return Report() if self.loop is None else self.loop.last

    def run(self) -> Report:
        """Run to the end, or until `stop`. Gives the last batch's report; raises MoneystateError."""
        return run_together([self])[0]

    def close(self) -> None:
        if self.loop is not None:
            self.loop.group.close()
        if self.watch is not None:
            self.watch.close()

    # Start

    def prepare(self) -> None:
        """Look at everything, then create what is missing."""
        o, checkpoint = self.options, self.checkpoint
        self._producer_bytes()
        check_reachable(o.bootstrap_servers, o.kafka_config)
        checkpoint.check_writable()
        settings = startup.settings_of(self.spec.name, o.key_groups, o.partitions, o.application(), o.topic_prefix)
        if not checkpoint.is_new():
            reads_replies = o.drain and self.spec.pending_counter is not None
            startup.check_existing(checkpoint, settings, self.spec.rules, o.finish_batch, reads_replies)
        self._open_initial_state()
        admin = admin_client(o.bootstrap_servers, o.kafka_config)
        changelog = o.topic_prefix + self.spec.changelog
        chosen = startup.check_changelog(admin, checkpoint, changelog, o.finish_batch)
        inputs = [TopicSpec(o.topic_prefix + t.name, o.topic_partitions, keep_for_good=True) for t in self.spec.inputs]
        sizes = startup.message_bytes(self.spec, o.formats)
        outputs = [self._stream(name, sizes[name]) for name in self.spec.streams]
        of_changelog = sizes[self.spec.changelog]
        outputs.append(TopicSpec(changelog, chosen or o.topic_partitions, compacted=True, message_bytes=of_changelog))
        outputs.append(TopicSpec(o.topic_prefix + self.spec.commits, o.partitions, compacted=True, at_least=True))
        commits = o.topic_prefix + self.spec.commits
        missing = {t.name for t in check_topics(admin, inputs + outputs, o.create_topics)}
        startup.check_timed(admin, [o.topic_prefix + name for name in self.spec.timed], self._writers())
        check_not_compacted(admin, [t.name for t in inputs if t.name not in missing])
        if commits not in missing:
            markers = read_markers(o.bootstrap_servers, o.kafka_config, commits)
            if self.initial is not None and not o.new_epoch:
                initial.check_origin(self.initial.manifest, markers, o.application(), o.partitions)
            takes_over = o.new_epoch or self.initial is not None
            replaced = startup.check_markers(checkpoint, markers, o.application(), o.partitions, takes_over)
            if not checkpoint.is_new():
                startup.check_plan(checkpoint, markers, settings, self.spec.rules)
                if warning := startup.other_code(checkpoint, markers, settings, self.spec.code):
                    self.on_warning(warning)
        else:
            markers, replaced = {}, []
        if not checkpoint.is_new():
            startup.check_retention(admin, checkpoint, o.topic_prefix)
        elif self.initial is not None or missing.isdisjoint(t.name for t in inputs):
            self._start_plan(admin)
        created = ensure_topics(admin, inputs + outputs, o.create_topics, o.replication)
        counts = partition_counts(admin)
        self.timed = {self.spec.streams.index(name): counts[o.topic_prefix + name] for name in self.spec.timed}
        new_inputs = [name for t in self.spec.inputs if t.ordered and (name := o.topic_prefix + t.name) in created]
        if new_inputs:
            self.on_new_inputs(new_inputs)
        self._claim(markers)
        if checkpoint.is_new():
            note = None if self.initial is None else initial.note_of(self.initial)
            publish = o.new_epoch or note is not None
            start = {"offset": self._start_plan(admin), "superseded": replaced, "initial": note, "publish": publish}
            checkpoint.begin({**settings, startup.CHANGELOG_PARTITIONS: partition_counts(admin)[changelog]}, start)
        elif chosen is None:  # begun by a version that did not keep it
            checkpoint.keep_setting(startup.CHANGELOG_PARTITIONS, partition_counts(admin)[changelog])
        checkpoint.keep_rules(self.spec.rules)
        checkpoint.keep_code(self.spec.code)
        if checkpoint.changed_rules(self.spec.rules):
            markers = final_markers(o.bootstrap_servers, o.kafka_config, commits, o.partitions)
            startup.check_plan(checkpoint, markers, settings, self.spec.rules)
            checkpoint.replan(self.spec.rules)
        self._publish()

    def _producer_bytes(self) -> int:
        """Raises ConfigError where the user's setting is too small."""
        o = self.options
        return producer_bytes(o.kafka_config, max(startup.message_bytes(self.spec, o.formats).values()))

    def _stream(self, name: str, message_bytes: int) -> TopicSpec:
        how, o = self.spec.created.get(name, Stream()), self.options
        partitions = how.partitions or o.topic_partitions
        if name in self.spec.timed:
            partitions = max(partitions, self._writers())
        return TopicSpec(o.topic_prefix + name, partitions, how.compacted, message_bytes=message_bytes)

    def _writers(self) -> int:
        """The output partitions that have key groups."""
        return min(self.options.partitions, self.options.key_groups)

    def _claim(self, markers: Iterable[bytes]) -> None:
        """Become the only instance of the application, before anything is written to the checkpoint."""
        o = self.options
        started = datetime.now(UTC).isoformat(timespec="seconds")
        who = f"host {socket.gethostname()}, process {os.getpid()}, since {started}"
        partitions = claims.output_partitions(o.application(), o.partitions, markers)
        self.watch = claims.take(self._sink_config(0, []), who, partitions, self.checkpoint.last_planned())

    def _open_initial_state(self) -> None:
        """Open the savepoint that a new checkpoint is to begin with."""
        o = self.options
        if not o.initial_state:
            return
        if not self.checkpoint.is_new():
            initial.check_same(o.initial_state, self.checkpoint.start().get("initial"))
            return
        self.initial = initial.open_initial(o.initial_state)
        initial.check_fits(self.initial.manifest, self.spec.name, o.key_groups, self.spec.rules, self.spec.streams)

    def _start_plan(self, admin: AdminClient) -> dict[str, Any]:
        """The offset that a new checkpoint begins at."""
        o = self.options
        rules = plans.rules_hash(self.spec.rules)
        topics = [t.name for t in self.spec.inputs]
        if self.initial is None:
            start = resolve_start(admin, o.starting_offsets, o.topic_prefix, topics)
            return plans.Plan(rules, start.topic_ids, start.partitions).to_offset()
        plan = initial.start_plan(admin, self.initial.manifest, o.topic_prefix, topics, rules, o.initial_offsets)
        startup.check_logs(admin, plan, plan, o.topic_prefix)
        return plan.to_offset()

    def _publish(self) -> None:
        """Put the state that the checkpoint begins with into the changelog, unless it is there."""
        start, epoch = self.checkpoint.start(), self.checkpoint.epoch()
        if not start.get("publish") or epoch is None or self.checkpoint.last_planned() >= 0:
            return
        folder = self._initial_folder()
        known = (
            initial.SavepointInitialState(initial.open_initial(folder), self.spec.asked_again)
            if folder
            else EmptyInitialState()
        )
        sink = self._sink()
        convert = writers(sink.formats, sink.stream_names, sink.topic_prefix, sink.registry_url, sink.schemas)
        digest = plans.digest(start["offset"])
        owner = self.spec.state.owner_of
        Publisher(sink.config, self.options.partitions, epoch, digest, known, owner, convert, self.on_publish).run()

    def _initial_folder(self) -> str:
        """The savepoint that key groups are still to be loaded from; empty where there is none."""
        note = self.checkpoint.start().get("initial")
        return note["folder"] if note is not None and self.checkpoint.last_committed() < 0 else ""

    # Run

    def start(self, session: SparkSession) -> Running:
        """Begin the query, in a session of its own."""
        o = self.options
        self.precheck(session)
        session.dataSource.register(MoneystateSource)
        session.conf.set(ARROW_ROWS, 1)  # a row of results stands for megabytes: the sink is to have it at once
        source = self._source()
        blocks = session.readStream.format("moneystate").option(OPTION, source.to_json()).load()
        operator = KeyGroupOperator(
            self.spec.make,
            o.key_groups,
            o.partitions,
            self.spec.bounds(),
            o.pipelined,
            self._initial_folder(),
            {t.code: o.topic_prefix + t.name for t in self.spec.inputs},
        )
        results = blocks.groupBy("key").transformWithState(operator, RESULT_SCHEMA, "Append", "None")
        self.loop = loop = _BatchLoop(self, self._sink(), Path(source.drain_complete_file))
        writer = results.writeStream.foreachBatch(loop).option("checkpointLocation", spark_path(self.checkpoint.root))
        if o.bounded or o.finish_batch:
            writer = writer.trigger(availableNow=True)
        elif o.trigger_interval_s:
            writer = writer.trigger(processingTime=f"{o.trigger_interval_s} seconds")
        self.check_alone()
        return Running(self, writer.start())

    def check_alone(self) -> None:
        """Raises InstanceError."""
        assert self.watch is not None
        self.watch.check()

    def _source(self) -> SourceSpec:
        o = self.options
        start = self.checkpoint.start()
        return SourceSpec(
            bootstrap_servers=o.bootstrap_servers,
            extra=o.kafka_config,
            topic_prefix=o.topic_prefix,
            group=o.application(),
            inputs=self.spec.inputs,
            decoder=self.spec.decoder,
            key_groups=o.key_groups,
            output_partitions=o.partitions,
            source_tasks=o.source_tasks,
            bound_ms=self.spec.bound_ms,
            max_future_ms=self.spec.max_future_ms,
            dead_letter_stream=self.spec.dead_letter_stream,
            max_records=o.max_records,
            rules=plans.rules_hash(self.spec.rules),
            start=start["offset"],
            first_tick=start["offset"]["tick"] + 1 if start.get("initial") else 0,
            bounded=o.bounded,
            drain=o.drain,
            idle_timeout_s=o.idle_timeout_s,
            stop_file=str(self.stop_file),
            only_planned=o.finish_batch,
            formats=o.formats,
            registry_url=o.registry_url,
            rewrite=o.rewrite,
            replies_s=o.replies_s if o.drain else 0.0,
            max_record_bytes=self.spec.max_record_bytes,
            schemas=self.spec.schemas,
        )

    def _sink(self) -> SinkSpec:
        o = self.options
        partitions = self.checkpoint.settings()[startup.CHANGELOG_PARTITIONS]
        config = self._sink_config(partitions, self.checkpoint.start()["superseded"])
        return SinkSpec(config, self.spec.streams, o.topic_prefix, o.formats, o.registry_url, self.spec.schemas)

    def _sink_config(self, changelog_partitions: int, superseded: list[str]) -> SinkConfig:
        o = self.options
        return SinkConfig(
            bootstrap_servers=o.bootstrap_servers,
            extra=o.kafka_config,
            application_id=o.application(),
            streams=[o.topic_prefix + name for name in self.spec.streams],
            commits=o.topic_prefix + self.spec.commits,
            changelog=o.topic_prefix + self.spec.changelog,
            key_groups=o.key_groups,
            changelog_partitions=changelog_partitions,
            superseded=superseded,
            reader_rules={name: self.spec.rules[name] for name in self.spec.reader_rules},
            max_message_bytes=self._producer_bytes(),
            instance=self.instance,
            topic_prefix=o.topic_prefix,
            inputs=[t.name for t in self.spec.inputs],
            timed=self.timed,
            writers=self._writers(),
        )


class _BatchLoop:
    """What `foreachBatch` calls. Spark has planned the batch by then: its offsets stand in the checkpoint."""

    def __init__(self, job: Job, sink: SinkSpec, drain_complete_file: Path) -> None:
        self.job = job
        self.drain_complete_file = drain_complete_file
        self.sink = sink
        self.last = Report()
        self.meter = Meter()
        o = job.options
        self.group = GroupProgress(o.bootstrap_servers, o.kafka_config, o.application(), o.topic_prefix)
        self.group.commit(plans.from_offset(job.checkpoint.offset(job.checkpoint.last_committed())))

    def __call__(self, results: DataFrame, number: int) -> None:
        try:
            self._batch(results, number)
        except Exception as e:
            self.job.failure = self.job.failure or self._told(as_one_line(e, self.job.log))
            raise

    def _told(self, failure: MoneystateError) -> MoneystateError:
        """Of a step's error also what is written of the batch: who mends the step has to know."""
        o, checkpoint = self.job.options, self.job.checkpoint
        if not isinstance(failure, StepError):
            return failure
        with contextlib.suppress(MoneystateError):  # the broker is away: the next start says it
            markers = read_markers(o.bootstrap_servers, o.kafka_config, o.topic_prefix + self.job.spec.commits)
            return StepError(f"{failure} {startup.written_part(checkpoint, markers)}".rstrip())
        return failure

    def _batch(self, results: DataFrame, number: int) -> None:
        checkpoint = self.job.checkpoint
        start, end = checkpoint.offset(number - 1), checkpoint.offset(number)
        epoch = checkpoint.epoch()
        assert epoch is not None
        failpoint("planned", number)
        report = run_sink(results, self.sink, BatchId(epoch, number, plans.digest(start), plans.digest(end)))
        failpoint("sunk", number)
        self.last = report
        before, after = plans.from_offset(start), plans.from_offset(end)
        if after.drain:
            self._drained(number, report)
        self.group.commit(after)
        self.job.on_batch(self.meter.measure(number, before, after, report, self.job.spec.inputs))

    def _drained(self, number: int, report: Report) -> None:
        """Say what is still open: to a later start, and to the planner, which reads replies until nothing is."""
        pending_counter = self.job.spec.pending_counter
        open_requests = 0 if pending_counter is None else report.counts.get(pending_counter, 0)
        self.job.checkpoint.save_open_requests(number, open_requests)
        if not open_requests:
            self.drain_complete_file.touch()


def run_together(jobs: Sequence[Job]) -> list[Report]:
    """Run jobs in one Spark application to the end of all, or until their `stop`. Gives each one's last report. Where
    one fails the others finish the batch in hand and end. Raises the MoneystateError of the one that failed first."""
    try:
        for job in jobs:
            job.prepare()
            job.log = jobs[0].log
        try:
            return _run_spark(jobs)
        except Exception as e:  # not a job's own `failure`: it may be that of being interrupted by the end of another
            raise as_one_line(e, jobs[0].log) from e
    finally:
        for job in jobs:
            job.close()


def _run_spark(jobs: Sequence[Job]) -> list[Report]:
    first, o = jobs[0], jobs[0].options
    # A JVM that is gone is told of by the error; py4j would say it again, in part through the root logger.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addHandler(logging.NullHandler())
    name = ", ".join(job.spec.name for job in jobs)
    # a checkpoint is a folder always: moneystate/spark/checkpoint.py
    session = open_session(name, o.master, o.partitions, o.spark_config, first.log, True, first.own)
    try:
        if under_spark_submit():
            stop_with_jvm(session, partial(_stop, jobs))
        for stage in stages(jobs):
            await_all([job.start(session if len(jobs) == 1 else session.newSession()) for job in stage])
        return [job.last for job in jobs]
    finally:
        with contextlib.suppress(Exception):  # of a JVM that is gone: it must not hide why
            session.stop()


def stages(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs in groups that run one after the other. A bounded run reads what is there when it starts: a job that
    reads what another of them writes starts when that one has ended. Others, and loops, run at once."""
    if not jobs[0].options.bounded:
        return [list(jobs)]
    left, grouped = list(jobs), []
    while left:
        ready = [job for job in left if not any(_reads(job, other) for other in left if other is not job)] or left
        grouped.append(ready)
        left = [job for job in left if job not in ready]
    return grouped


def _reads(job: Job, writer: Job) -> bool:
    return not {t.name for t in job.spec.inputs}.isdisjoint(writer.spec.streams)


def _stop(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.stop()
