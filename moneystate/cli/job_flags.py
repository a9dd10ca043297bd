"""The flags of a job of any service, as `RunOptions`."""

from __future__ import annotations

from dataclasses import dataclass

from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, NewTopicFlags, SparkFlags
from moneystate.cli.option import (
    DURATION,
    NUMBER,
    PATH,
    PATH_OR_URI,
    TIME,
    Flags,
    Panel,
    check_given,
    filled,
    flag,
)
from moneystate.cli.options import (
    ApplicationId,
    CheckpointFolder,
    CreateTopics,
    KeyGroups,
    Local,
    Partitions,
    SchemaRegistry,
    SourceTasks,
    StartingOffsets,
)
from moneystate.cli.times import parse_time_ms
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME
from moneystate.errors import CheckpointError, ConfigError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.local_path import is_local
from moneystate.job.run_options import RunOptions
from moneystate.job.storage import jvm_settings
from moneystate.kafka.starting import EARLIEST
from moneystate.ports.service import JobSpec, ServiceSpec


@dataclass(frozen=True)
class JobFlags(Flags):
    """Raises ConfigError for flags that contradict each other."""

    checkpoint: CheckpointFolder
    cluster: ClusterFlags
    new_topics: NewTopicFlags
    spark_flags: SparkFlags
    until_caught_up: bool = flag(False, "Read the records that the topics have at the start, then end.", Panel.run)
    drain: bool = flag(
        False, "At the end of a bounded run, release everything that waits. This ends the checkpoint.", Panel.run
    )
    drain_until: str = flag(
        "", "With --drain: run only what is due up to this event time, and all of it.", Panel.run, TIME
    )
    idle_timeout: str = flag(
        "30s", "In a live run, a partition without new records for this long is idle.", Panel.run, DURATION
    )
    broker_skew: str = flag(
        "",
        "How far the clocks of the brokers may differ, for inputs in arrival order. Default: 0s with one broker, "
        "50ms with several.",
        Panel.run, DURATION,
    )  # fmt: skip
    starting_offsets: StartingOffsets = EARLIEST
    application_id: ApplicationId = ""
    new_epoch: bool = flag(
        False, "Let a new checkpoint take over from the one that wrote the output so far.", Panel.state
    )
    initial_state: str = flag(
        "", "Folder of the savepoint from which a new checkpoint starts.", Panel.state, PATH_OR_URI
    )
    initial_offsets: str = flag(
        "", "JSON file {topic: {partition: offset}}: where to continue after a savepoint of other topics.",
        Panel.state, PATH,
    )  # fmt: skip
    finish_batch: bool = flag(False, "Only run the unfinished batch, with the rules of its plan.", Panel.run)
    key_groups: KeyGroups = 64
    partitions: Partitions = 4
    max_records_per_batch: int = flag(200_000, "Records of one batch at most.", Panel.run, NUMBER, least=1)
    trigger_interval: str = flag("0s", "Least time between batch starts; 0s: without a pause.", Panel.run, DURATION)
    schema_registry: SchemaRegistry = ""
    create_topics: CreateTopics = True
    source_tasks: SourceTasks = 2
    local: Local = False

    def __post_init__(self) -> None:
        check_given(checkpoint=self.checkpoint)
        _check_together(self.drain, self.until_caught_up, self.drain_until)
        _check_initial(self.initial_state, self.initial_offsets, self.starting_offsets)
        _check_local(self.local, self.checkpoint, self.spark_flags.master)

    def options(self) -> RunOptions:
        """Sets up the JVM of this process, too. Raises ConfigError."""
        spark_config = self.spark_flags.configure()
        jvm_settings.log_for(self.checkpoint)
        return filled(
            RunOptions,
            self,
            bounded=self.until_caught_up or self.drain,
            drain_until_ms=_event_time_ms(self.drain_until, "--drain-until") if self.drain_until else None,
            idle_timeout_s=parse_ms(self.idle_timeout, "--idle-timeout", 1) / 1000,
            broker_skew_ms=parse_ms(self.broker_skew, "--broker-skew") if self.broker_skew else None,
            max_records=self.max_records_per_batch,
            trigger_interval_s=parse_ms(self.trigger_interval, "--trigger-interval") / 1000,
            registry_url=self.schema_registry or None,
            master=self.spark_flags.master or None,
            replication=self.new_topics.replication(),
            kafka_config=self.cluster.settings(),
            spark_config=spark_config,
        )


def _event_time_ms(text: str, flag: str) -> int:
    """Raises ConfigError."""
    time_ms = parse_time_ms(text, flag)
    if not MIN_EVENT_TIME <= time_ms <= MAX_EVENT_TIME:
        raise ConfigError(f"{flag} {text}: expected a year from 1 to 9999.", "give an event time.")
    return time_ms


def _check_together(drain: bool, until_caught_up: bool, drain_until: str) -> None:
    """Raises ConfigError."""
    if drain_until and not drain:
        raise ConfigError("--drain-until: expected --drain as well.", "add --until-caught-up --drain.")
    if drain and not until_caught_up:
        raise ConfigError("--drain: expected a bounded run, found a live one.", "add --until-caught-up.")


def _check_initial(initial_state: str, initial_offsets: str, starting_offsets: str) -> None:
    """Raises ConfigError."""
    if initial_offsets and not initial_state:
        raise ConfigError(
            "--initial-offsets: expected --initial-state as well.", "use --starting-offsets without a savepoint."
        )
    if initial_state and starting_offsets != EARLIEST:
        raise ConfigError(
            "--starting-offsets: expected no value with --initial-state, which says where to continue.",
            "leave it out, or give --initial-offsets if the savepoint is of other topics.",
        )


def _check_local(local: bool, checkpoint: str, master: str) -> None:
    """Raises ConfigError."""
    if local and master:
        raise ConfigError("--local: expected no --master, which is Spark's.", "leave one of them out.")
    if local and not is_local(checkpoint):
        raise ConfigError(
            f"--local: expected a folder of this machine as --checkpoint, found {checkpoint}.", "give a path."
        )


def planned_job(service: ServiceSpec, checkpoint: str) -> JobSpec:
    """The job with the rules of the unfinished batch's plan, as far as flags choose them."""
    existing = Checkpoint(checkpoint)
    planned = None if existing.is_new() else existing.planned_rules()
    if planned is None:
        raise CheckpointError(
            f"{checkpoint}: expected a planned batch to finish, found none.", "start without --finish-batch."
        )
    return service.job(existing.rules(planned))
