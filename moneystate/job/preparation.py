"""The start of a job, up to its first batch.

It first checks everything and writes nothing (`moneystate.job.start_checks`), then creates what is missing. An error
in a check leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable

from moneystate.engine import plan as plans
from moneystate.engine.marker import marker_key
from moneystate.job import initial, startup
from moneystate.job.start_checks import StartChecks
from moneystate.job.task_specs import TaskSpecs
from moneystate.kafka import claims
from moneystate.kafka.convert import writers
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.markers import final_markers
from moneystate.kafka.publish import EmptyInitialState, Publisher
from moneystate.kafka.topics import ensure_topics, partition_counts


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
        self.checks = StartChecks(specs, on_warning)
        self.watch: claims.Watch | None = None  # from the claim on

    def run(self) -> None:
        """Raises MoneystateError."""
        try:
            self.checks.run()
            self._create_topics()
            watch = self.watch = self._claim()
            self._write_checkpoint()
            replaces = self._replaces()
            watch.take_over(self._to_take_over() if replaces else [], self.checkpoint.epoch() or "")
            failpoint("taken over", self.checkpoint.last_planned())
            if replaces:
                self._publish()
        finally:
            self.checks.close()

    def _create_topics(self) -> None:
        o, spec, admin = self.options, self.spec, self.checks.admin
        created = ensure_topics(admin, self.checks.inputs() + self.checks.outputs(), o.create_topics, o.replication)
        counts = partition_counts(admin)
        self.specs.timed = {spec.streams.index(name): counts[o.topic_prefix + name] for name in spec.timed}
        new_inputs = [
            name for t in self.checks.known.named.values() if t.ordered and (name := o.topic_prefix + t.name) in created
        ]
        if new_inputs:
            self.on_new_inputs(new_inputs)

    def begin(self) -> None:
        """Only begin the new checkpoint. A later run claims the application, and publishes. Raises MoneystateError."""
        try:
            self.checks.run()
            self._begin_checkpoint()
            self._keep_program()
        finally:
            self.checks.close()

    def _claim(self) -> claims.Watch:
        """Become the only instance of the application, before anything is written to the checkpoint."""
        o = self.options
        partitions = claims.output_partitions(o.application(), o.partitions, self.checks.markers)
        config, who = self.specs.sink_config(0, []), claims.this_process()
        return claims.take(config, who, partitions, self.checkpoint.last_planned())

    def _write_checkpoint(self) -> None:
        """Begin the checkpoint if it is new, and record this run's rules and code."""
        checkpoint, rules, checks = self.checkpoint, self.spec.rules, self.checks
        if checkpoint.is_new():
            self._begin_checkpoint()
        self._complete_settings()
        self._keep_program()
        if checkpoint.changed_rules(rules):
            o = self.options
            markers = final_markers(o.bootstrap_servers, o.kafka_config, checks.commits, range(o.partitions))
            startup.check_plan(checkpoint, markers, checks.settings, rules)
            checkpoint.replan(rules)

    def _keep_program(self) -> None:
        self.checkpoint.keep_rules(self.spec.rules)
        self.checkpoint.keep_code(self.spec.code, self.spec.functions)

    def _complete_settings(self) -> None:
        """Adds the settings of the changelog, from the first run on that writes it."""
        there = startup.changelog_settings(self.checks.admin, self.checks.changelog)
        for name in there.keys() - self.checkpoint.settings().keys():
            self.checkpoint.keep_setting(name, there[name])

    def _begin_checkpoint(self) -> None:
        checks = self.checks
        note = None if checks.initial is None else initial.note_of(self.options.initial_state)
        publish = self.options.new_epoch or note is not None
        start = {"offset": checks.start_plan(), "superseded": checks.replaced, "initial": note, "publish": publish}
        self.checkpoint.begin(checks.settings, start)

    def _replaces(self) -> bool:
        """Whether the checkpoint's initial state may still have to be written to the changelog."""
        checkpoint = self.checkpoint
        return (
            bool(checkpoint.start().get("publish")) and checkpoint.epoch() is not None and checkpoint.last_planned() < 0
        )

    def _to_take_over(self) -> list[int]:
        """The output partitions that do not have a marker of this checkpoint yet.

        Nobody else writes any more. So this finds what the old checkpoint may have done since the checks. Raises
        MarkerError.
        """
        o, checks, epoch = self.options, self.checks, self.checkpoint.epoch()
        had = claims.output_partitions(o.application(), o.partitions, checks.markers)
        markers = final_markers(o.bootstrap_servers, o.kafka_config, checks.commits, had)
        if checks.initial is not None and not o.new_epoch:
            initial.check_origin(checks.initial.manifest, markers, o.application(), epoch)
        keys = [(partition, marker_key(o.application(), partition)) for partition in had]
        return [partition for partition, key in keys if key not in markers or markers[key].epoch != epoch]

    def _publish(self) -> None:
        """Write the checkpoint's initial state to the changelog, unless that has been done."""
        start, epoch = self.checkpoint.start(), self.checkpoint.epoch()
        assert epoch is not None
        folder = self.specs.initial_folder()
        known = (
            initial.SavepointInitialState(initial.open_initial(folder), self.spec.asked_again)
            if folder
            else EmptyInitialState()
        )
        sink = self.specs.sink()
        convert = writers(sink.formats, sink.stream_names, sink.topic_prefix, sink.registry_url, sink.service)
        digest = plans.digest(start["offset"])
        owner = self.spec.state.owner_of
        Publisher(sink.config, self.options.partitions, epoch, digest, known, owner, convert, self.on_publish).run()
