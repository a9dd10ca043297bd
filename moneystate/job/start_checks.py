"""What a start checks before it writes anything: broker, checkpoint, topics, markers and logs.

A start runs all checks and ends at the first error. `moneystate doctor` (`moneystate.job.diagnosis`) runs the same
checks and collects the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from confluent_kafka.admin import AdminClient

from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs
from moneystate.engine.marker import Marker
from moneystate.engine.processor import needs_broker_time
from moneystate.job import initial, startup
from moneystate.job.state_checks import check_readable
from moneystate.job.task_specs import TaskSpecs
from moneystate.kafka.broker_clock import RETENTION_MS
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.input_topics import matching
from moneystate.kafka.markers import read_markers
from moneystate.kafka.starting import resolve_start
from moneystate.kafka.topics import (
    TopicSpec,
    check_kept_for_good,
    check_not_compacted,
    check_topics,
    partition_counts,
)
from moneystate.ports.service import Stream
from moneystate.savepoint.format import Savepoint

Check = tuple[str, Callable[[], None]]  # what it is about, and the check


class StartChecks:
    """The checks of one start, in their order. Later ones use what earlier ones have found."""

    def __init__(self, specs: TaskSpecs, on_warning: Callable[[str], None]) -> None:
        self.specs = specs
        self.spec, self.options, self.checkpoint = specs.spec, specs.options, specs.checkpoint
        self.on_warning = on_warning
        self.known = Inputs(self.spec.inputs)
        o = self.options
        self.changelog = o.topic_prefix + self.spec.changelog
        self.commits = o.topic_prefix + self.spec.commits
        self.settings = startup.settings_of(
            self.spec.name, o.key_groups, o.partitions, o.application(), o.topic_prefix, o.local
        )
        self.initial: Savepoint | None = None  # that a checkpoint before its first batch begins with
        self.changelog_partitions: int | None = None  # None: not chosen yet
        self.missing: set[str] = set()  # topics
        self.markers: dict[bytes, Marker] = {}
        self.replaced: list[str] = []  # epochs that this checkpoint replaces

    @cached_property
    def admin(self) -> AdminClient:
        return admin_client(self.options.bootstrap_servers, self.options.kafka_config)

    def close(self) -> None:
        """The job lives on, and an idle client would keep its connections and report a broker that goes away."""
        vars(self).pop("admin", None)

    def run(self) -> None:
        """Raises MoneystateError."""
        for _, check in [*self.of_broker(), *self.of_machine(), *self.of_job()]:
            check()

    def of_broker(self) -> Iterator[Check]:
        yield "Kafka settings", self._check_settings
        yield "broker", self._check_broker

    def of_machine(self) -> Iterator[Check]:
        """Yields the checks that need no broker."""
        yield "checkpoint folder", self.checkpoint.check_writable
        yield "checkpoint", self._check_checkpoint
        yield "initial state", self._open_initial_state

    def of_job(self) -> Iterator[Check]:
        yield "changelog", self._check_changelog
        yield "topics", self._check_topics
        yield "markers", self._check_markers
        yield "logs", self._check_logs

    def _check_settings(self) -> None:
        self.specs.producer_bytes()

    def _check_broker(self) -> None:
        check_reachable(self.options.bootstrap_servers, self.options.kafka_config)

    def _check_checkpoint(self) -> None:
        o, checkpoint = self.options, self.checkpoint
        if not checkpoint.is_new():
            reads_replies = o.drain and self.spec.pending_counter is not None
            startup.check_existing(
                checkpoint, self.settings, self.spec.rules, o.finish_batch, reads_replies, o.drain_until_ms
            )
            check_readable(self.spec, checkpoint.latest_rules(), str(checkpoint.root))

    def _open_initial_state(self) -> None:
        o, folder = self.options, self.options.initial_state
        if not self.checkpoint.is_new():
            if folder:
                initial.check_same(folder, self.checkpoint.start().get("initial"))
            folder = self.specs.initial_folder() if self.checkpoint.last_planned() < 0 else ""
        if not folder:
            return
        self.initial = initial.open_initial(folder)
        check_readable(self.spec, self.initial.manifest.rules, "--initial-state")
        initial.check_fits(self.initial.manifest, self.spec.name, o.key_groups, self.spec.rules, self.spec.streams)

    def _check_changelog(self) -> None:
        finish_batch = self.options.finish_batch
        self.changelog_partitions = startup.check_changelog(self.admin, self.checkpoint, self.changelog, finish_batch)

    def _check_topics(self) -> None:
        o = self.options
        wanted, there = self.inputs() + self.outputs(), partition_counts(self.admin)
        self.missing = {t.name for t in wanted if t.name not in there}
        check_topics(self.admin, wanted, o.create_topics)
        startup.check_timed(self.admin, [o.topic_prefix + name for name in self.spec.timed], self.specs.writers())
        existing = [t.name for t in self.inputs() if t.name not in self.missing]
        lossy = {o.topic_prefix + t.name for t in self.spec.inputs if t.compacted}
        check_not_compacted(self.admin, [name for name in existing if name not in lossy])
        tables = {o.topic_prefix + t.name for t in self.spec.inputs if t.table}
        check_kept_for_good(self.admin, [name for name in existing if name in tables - lossy])

    def _check_markers(self) -> None:
        if self.commits in self.missing:
            return
        o = self.options
        self.markers = read_markers(o.bootstrap_servers, o.kafka_config, self.commits)
        self.replaced = self._replaced(self.markers)

    def _replaced(self, markers: Mapping[bytes, Marker]) -> list[str]:
        o, checkpoint = self.options, self.checkpoint
        if self.initial is not None and not o.new_epoch:
            initial.check_origin(self.initial.manifest, markers, o.application(), checkpoint.epoch())
        takes_over = o.new_epoch or self.initial is not None
        replaced = startup.check_markers(checkpoint, markers, o.application(), o.partitions, takes_over)
        if not checkpoint.is_new():
            startup.check_plan(checkpoint, markers, self.settings, self.spec.rules)
            if warning := startup.other_code(checkpoint, markers, self.settings, self.spec.code):
                self.on_warning(warning)
        return replaced

    def _check_logs(self) -> None:
        if not self.checkpoint.is_new():
            startup.check_retention(self.admin, self.checkpoint, self.options.topic_prefix, self.spec.inputs)
        elif self.initial is not None or self.missing.isdisjoint(t.name for t in self.inputs()):
            self.start_plan()

    # The needs of the job

    def inputs(self) -> list[TopicSpec]:
        """Returns the input topics. A topic pattern stands for the topics that exist now."""
        o = self.options
        names = [*self.known.named, *matching(self.admin, self.known, o.topic_prefix)]
        return [self._input(name) for name in names]

    def _input(self, topic: str) -> TopicSpec:
        o, known = self.options, self.known.of(topic)
        declared = 0 if known is None else known.partitions
        return TopicSpec(
            o.topic_prefix + topic, declared or o.topic_partitions, keep_for_good=True, exactly=declared > 0,
            broker_time=known is not None and known.arrival, needs_broker_time=needs_broker_time(known),
        )  # fmt: skip

    def outputs(self) -> list[TopicSpec]:
        o = self.options
        sizes = startup.message_bytes(self.spec, o.formats)
        partitions, size = self.changelog_partitions or o.topic_partitions, sizes[self.spec.changelog]
        return [
            *(self._stream(name, sizes[name]) for name in self.spec.streams),
            TopicSpec(self.changelog, partitions, compacted=True, message_bytes=size),
            TopicSpec(self.commits, o.partitions, compacted=True, at_least=True),
            *self._clock(),
        ]

    def _clock(self) -> list[TopicSpec]:
        if not self.spec.clock:
            return []
        name = self.options.topic_prefix + self.spec.clock
        return [TopicSpec(name, 1, broker_time=True, needs_broker_time=True, retention_ms=RETENTION_MS)]

    def _stream(self, name: str, message_bytes: int) -> TopicSpec:
        how, o = self.spec.created.get(name, Stream()), self.options
        partitions = how.partitions or o.topic_partitions
        if name in self.spec.timed:
            partitions = max(partitions, self.specs.writers())
        return TopicSpec(
            o.topic_prefix + name, partitions, how.compacted, message_bytes=message_bytes, retention_ms=how.keep_ms,
            any_time=name in self.spec.dated,
        )  # fmt: skip

    def start_plan(self) -> dict[str, Any]:
        """The offset that a new checkpoint begins at."""
        o = self.options
        rules = plans.rules_hash(self.spec.rules)
        inputs = self.spec.inputs
        if self.initial is None:
            start = resolve_start(self.admin, o.starting_offsets, o.topic_prefix, inputs)
            return plans.Plan(rules, start.topic_ids, start.partitions).to_offset()
        plan = initial.start_plan(self.admin, self.initial.manifest, o.topic_prefix, inputs, rules, o.initial_offsets)
        startup.check_logs(self.admin, plan, plan, o.topic_prefix, inputs)
        return plan.to_offset()
