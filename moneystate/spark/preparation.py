"""The start of a job, up to its first batch.

It first checks everything (broker, checkpoint, topics, markers) and writes nothing, then creates what is missing. An
error in a check leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from confluent_kafka.admin import AdminClient

from moneystate.engine import plan as plans
from moneystate.engine.marker import Marker
from moneystate.kafka import claims
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.convert import writers
from moneystate.kafka.markers import final_markers, read_markers
from moneystate.kafka.publish import EmptyInitialState, Publisher
from moneystate.kafka.starting import resolve_start
from moneystate.kafka.topics import TopicSpec, check_not_compacted, check_topics, ensure_topics, partition_counts
from moneystate.ports.service import Stream
from moneystate.savepoint.format import Savepoint
from moneystate.spark import initial, startup
from moneystate.spark.task_specs import TaskSpecs


class Preparation:
    """`run`, once."""

    def __init__(
        self,
        specs: TaskSpecs,
        on_publish: Callable[[int], None],
        on_new_inputs: Callable[[list[str]], None],
        on_warning: Callable[[str], None],
    ) -> None:
        self.specs = specs
        self.spec, self.options, self.checkpoint = specs.spec, specs.options, specs.checkpoint
        self.on_publish = on_publish
        self.on_new_inputs = on_new_inputs
        self.on_warning = on_warning
        self.initial: Savepoint | None = None  # that a new checkpoint begins with
        self.watch: claims.Watch | None = None  # from the claim on
        o = self.options
        self.changelog = o.topic_prefix + self.spec.changelog
        self.commits = o.topic_prefix + self.spec.commits
        self.settings = startup.settings_of(self.spec.name, o.key_groups, o.partitions, o.application(), o.topic_prefix)

    @cached_property
    def admin(self) -> AdminClient:
        return admin_client(self.options.bootstrap_servers, self.options.kafka_config)

    def run(self) -> None:
        """Raises MoneystateError."""
        try:
            self._run()
        finally:  # the job lives on, and an idle client would keep its connections and report a broker that goes away
            vars(self).pop("admin", None)

    def _run(self) -> None:
        o = self.options
        self._check_surroundings()
        self._open_initial_state()
        chosen = startup.check_changelog(self.admin, self.checkpoint, self.changelog, o.finish_batch)
        inputs, outputs = self._inputs(), self._outputs(chosen)
        missing = self._check_topics(inputs, outputs)
        markers: dict[bytes, Marker] = {}
        replaced: list[str] = []
        if self.commits not in missing:
            markers = read_markers(o.bootstrap_servers, o.kafka_config, self.commits)
            replaced = self._check_markers(markers)
        if not self.checkpoint.is_new():
            startup.check_retention(self.admin, self.checkpoint, o.topic_prefix)
        elif self.initial is not None or missing.isdisjoint(t.name for t in inputs):
            self._start_plan()
        self._create_topics(inputs, outputs)
        self._claim(markers)
        self._write_checkpoint(chosen, replaced)
        self._publish()

    # Checks

    def _check_surroundings(self) -> None:
        o, checkpoint = self.options, self.checkpoint
        self.specs.producer_bytes()
        check_reachable(o.bootstrap_servers, o.kafka_config)
        checkpoint.check_writable()
        if not checkpoint.is_new():
            reads_replies = o.drain and self.spec.pending_counter is not None
            startup.check_existing(checkpoint, self.settings, self.spec.rules, o.finish_batch, reads_replies)

    def _open_initial_state(self) -> None:
        o = self.options
        if not o.initial_state:
            return
        if not self.checkpoint.is_new():
            initial.check_same(o.initial_state, self.checkpoint.start().get("initial"))
            return
        self.initial = initial.open_initial(o.initial_state)
        initial.check_fits(self.initial.manifest, self.spec.name, o.key_groups, self.spec.rules, self.spec.streams)

    def _check_topics(self, inputs: list[TopicSpec], outputs: list[TopicSpec]) -> set[str]:
        """Returns the names of missing topics."""
        o = self.options
        missing = {t.name for t in check_topics(self.admin, inputs + outputs, o.create_topics)}
        startup.check_timed(self.admin, [o.topic_prefix + name for name in self.spec.timed], self.specs.writers())
        check_not_compacted(self.admin, [t.name for t in inputs if t.name not in missing])
        return missing

    def _check_markers(self, markers: Mapping[bytes, Marker]) -> list[str]:
        """Returns the epochs that this checkpoint replaces."""
        o, checkpoint = self.options, self.checkpoint
        if self.initial is not None and not o.new_epoch:
            initial.check_origin(self.initial.manifest, markers, o.application(), o.partitions)
        takes_over = o.new_epoch or self.initial is not None
        replaced = startup.check_markers(checkpoint, markers, o.application(), o.partitions, takes_over)
        if not checkpoint.is_new():
            startup.check_plan(checkpoint, markers, self.settings, self.spec.rules)
            if warning := startup.other_code(checkpoint, markers, self.settings, self.spec.code):
                self.on_warning(warning)
        return replaced

    # Topics

    def _inputs(self) -> list[TopicSpec]:
        o = self.options
        return [TopicSpec(o.topic_prefix + t.name, o.topic_partitions, keep_for_good=True) for t in self.spec.inputs]

    def _outputs(self, changelog_partitions: int | None) -> list[TopicSpec]:
        o = self.options
        sizes = startup.message_bytes(self.spec, o.formats)
        partitions, size = changelog_partitions or o.topic_partitions, sizes[self.spec.changelog]
        return [
            *(self._stream(name, sizes[name]) for name in self.spec.streams),
            TopicSpec(self.changelog, partitions, compacted=True, message_bytes=size),
            TopicSpec(self.commits, o.partitions, compacted=True, at_least=True),
        ]

    def _stream(self, name: str, message_bytes: int) -> TopicSpec:
        how, o = self.spec.created.get(name, Stream()), self.options
        partitions = how.partitions or o.topic_partitions
        if name in self.spec.timed:
            partitions = max(partitions, self.specs.writers())
        return TopicSpec(o.topic_prefix + name, partitions, how.compacted, message_bytes=message_bytes)

    def _create_topics(self, inputs: list[TopicSpec], outputs: list[TopicSpec]) -> None:
        o, spec = self.options, self.spec
        created = ensure_topics(self.admin, inputs + outputs, o.create_topics, o.replication)
        counts = partition_counts(self.admin)
        self.specs.timed = {spec.streams.index(name): counts[o.topic_prefix + name] for name in spec.timed}
        new_inputs = [name for t in spec.inputs if t.ordered and (name := o.topic_prefix + t.name) in created]
        if new_inputs:
            self.on_new_inputs(new_inputs)

    # Writes

    def _claim(self, markers: Iterable[bytes]) -> None:
        """Become the only instance of the application, before anything is written to the checkpoint."""
        o = self.options
        partitions = claims.output_partitions(o.application(), o.partitions, markers)
        config, who = self.specs.sink_config(0, []), claims.this_process()
        self.watch = claims.take(config, who, partitions, self.checkpoint.last_planned())

    def _write_checkpoint(self, changelog_partitions: int | None, replaced: list[str]) -> None:
        """Begin the checkpoint if it is new, and record this run's rules and code."""
        checkpoint, rules = self.checkpoint, self.spec.rules
        if checkpoint.is_new():
            self._begin_checkpoint(replaced)
        elif changelog_partitions is None:  # the version that began it did not record the number
            checkpoint.keep_setting(startup.CHANGELOG_PARTITIONS, partition_counts(self.admin)[self.changelog])
        checkpoint.keep_rules(rules)
        checkpoint.keep_code(self.spec.code)
        if checkpoint.changed_rules(rules):
            o = self.options
            markers = final_markers(o.bootstrap_servers, o.kafka_config, self.commits, o.partitions)
            startup.check_plan(checkpoint, markers, self.settings, rules)
            checkpoint.replan(rules)

    def _begin_checkpoint(self, replaced: list[str]) -> None:
        note = None if self.initial is None else initial.note_of(self.initial)
        publish = self.options.new_epoch or note is not None
        start = {"offset": self._start_plan(), "superseded": replaced, "initial": note, "publish": publish}
        partitions = partition_counts(self.admin)[self.changelog]
        self.checkpoint.begin({**self.settings, startup.CHANGELOG_PARTITIONS: partitions}, start)

    def _start_plan(self) -> dict[str, Any]:
        """The offset that a new checkpoint begins at."""
        o = self.options
        rules = plans.rules_hash(self.spec.rules)
        topics = [t.name for t in self.spec.inputs]
        if self.initial is None:
            start = resolve_start(self.admin, o.starting_offsets, o.topic_prefix, topics)
            return plans.Plan(rules, start.topic_ids, start.partitions).to_offset()
        plan = initial.start_plan(self.admin, self.initial.manifest, o.topic_prefix, topics, rules, o.initial_offsets)
        startup.check_logs(self.admin, plan, plan, o.topic_prefix)
        return plan.to_offset()

    def _publish(self) -> None:
        """Write the checkpoint's initial state to the changelog, unless that has been done."""
        start, epoch = self.checkpoint.start(), self.checkpoint.epoch()
        if not start.get("publish") or epoch is None or self.checkpoint.last_planned() >= 0:
            return
        folder = self.specs.initial_folder()
        known = (
            initial.SavepointInitialState(initial.open_initial(folder), self.spec.asked_again)
            if folder
            else EmptyInitialState()
        )
        sink = self.specs.sink()
        convert = writers(sink.formats, sink.stream_names, sink.topic_prefix, sink.registry_url, sink.schemas)
        digest = plans.digest(start["offset"])
        owner = self.spec.state.owner_of
        Publisher(sink.config, self.options.partitions, epoch, digest, known, owner, convert, self.on_publish).run()
