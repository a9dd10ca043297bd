"""What a job hands to Spark's tasks: the specifications of its source and of its sink."""

from __future__ import annotations

import uuid
from pathlib import Path

from moneystate.engine import plan as plans
from moneystate.job import startup
from moneystate.job.batch_writing import SinkSpec
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.run_options import RunOptions
from moneystate.kafka.sink import SinkConfig
from moneystate.kafka.sizes import producer_bytes
from moneystate.kafka.source_spec import SourceSpec
from moneystate.ports.service import JobSpec

# How often the time of inputs in arrival order goes on while nothing is due.
READERS_WAIT_MS = 1_000  # for the marks of a timed stream
NOBODY_WAITS_MS = 60_000


class TaskSpecs:
    """Builds the specifications of one job, from its service, its options and its checkpoint."""

    def __init__(self, spec: JobSpec, options: RunOptions, checkpoint: Checkpoint) -> None:
        self.spec = spec
        self.options = options
        self.checkpoint = checkpoint
        self.instance = uuid.uuid4().hex  # of this run, for its claims
        self.timed: dict[int, int] = {}  # number of partitions of each timed stream, known once the topics exist

    def writers(self) -> int:
        """The number of output partitions that have key groups."""
        return min(self.options.partitions, self.options.key_groups)

    def producer_bytes(self) -> int:
        """Raises ConfigError if the user's setting is too small."""
        o = self.options
        return producer_bytes(o.kafka_config, max(startup.message_bytes(self.spec, o.formats).values()))

    def initial_folder(self) -> str:
        """The savepoint that key groups still have to load; empty: none."""
        note = self.checkpoint.start().get("initial")
        return note["folder"] if note is not None and self.checkpoint.last_committed() < 0 else ""

    def source(self, stop_file: Path) -> SourceSpec:
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
            drain_until_ms=o.drain_until_ms,
            idle_timeout_s=o.idle_timeout_s,
            stop_file=str(stop_file),
            only_planned=o.finish_batch,
            formats=o.formats,
            registry_url=o.registry_url,
            rewrite=o.rewrite,
            replies_s=o.replies_s if o.drain else 0.0,
            max_record_bytes=self.spec.max_record_bytes,
            service=self.spec.service,
            clock=self.spec.clock,
            broker_skew_ms=o.broker_skew_ms,
            clock_every_ms=READERS_WAIT_MS if self.spec.timed else NOBODY_WAITS_MS,
        )

    def sink(self) -> SinkSpec:
        o = self.options
        partitions = self.checkpoint.settings()[startup.CHANGELOG_PARTITIONS]
        config = self.sink_config(partitions, self.checkpoint.start()["superseded"])
        return SinkSpec(
            config, self.spec.streams, o.topic_prefix, o.formats, o.registry_url, self.spec.service,
            self.spec.dead_letter_stream,
        )  # fmt: skip

    def sink_config(self, changelog_partitions: int, superseded: list[str]) -> SinkConfig:
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
            max_message_bytes=self.producer_bytes(),
            instance=self.instance,
            topic_prefix=o.topic_prefix,
            inputs=[t.name for t in self.spec.inputs],
            timed=self.timed,
            dated=[self.spec.streams.index(name) for name in self.spec.dated],
            writers=self.writers(),
        )
