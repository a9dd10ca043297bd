"""The flags of a job of any service, as `RunOptions`."""

from __future__ import annotations

from typing import Annotated

from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, NewTopicFlags, SparkFlags
from moneystate.cli.option import DURATION, NUMBER, PATH, PATH_OR_URI, TIME, Panel, check_given, option
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


def job_options(
    checkpoint: CheckpointFolder,
    cluster: ClusterFlags,
    new_topics: NewTopicFlags,
    spark_flags: SparkFlags,
    until_caught_up: Annotated[
        bool, option("until-caught-up", "Read the records that the topics have at the start, then end.", Panel.run)
    ] = False,
    drain: Annotated[
        bool,
        option(
            "drain", "At the end of a bounded run, release everything that waits. This ends the checkpoint.", Panel.run
        ),
    ] = False,
    drain_until: Annotated[
        str,
        option(
            "drain-until", "With --drain: run only what is due up to this event time, and all of it.", Panel.run, TIME
        ),
    ] = "",
    idle_timeout: Annotated[
        str,
        option(
            "idle-timeout", "In a live run, a partition without new records for this long is idle.", Panel.run, DURATION
        ),
    ] = "30s",
    broker_skew: Annotated[
        str,
        option(
            "broker-skew",
            "How far the clocks of the brokers may differ, for inputs in arrival order. Default: 0s with one broker, "
            "50ms with several.",
            Panel.run,
            DURATION,
        ),
    ] = "",
    starting_offsets: StartingOffsets = EARLIEST,
    application_id: ApplicationId = "",
    new_epoch: Annotated[
        bool,
        option("new-epoch", "Let a new checkpoint take over from the one that wrote the output so far.", Panel.state),
    ] = False,
    initial_state: Annotated[
        str,
        option(
            "initial-state", "Folder of the savepoint from which a new checkpoint starts.", Panel.state, PATH_OR_URI
        ),
    ] = "",
    initial_offsets: Annotated[
        str,
        option(
            "initial-offsets",
            "JSON file {topic: {partition: offset}}: where to continue after a savepoint of other topics.",
            Panel.state,
            PATH,
        ),
    ] = "",
    finish_batch: Annotated[
        bool, option("finish-batch", "Only run the unfinished batch, with the rules of its plan.", Panel.run)
    ] = False,
    key_groups: KeyGroups = 64,
    partitions: Partitions = 4,
    max_records_per_batch: Annotated[
        int, option("max-records-per-batch", "Records of one batch at most.", Panel.run, NUMBER, least=1)
    ] = 200_000,
    trigger_interval: Annotated[
        str, option("trigger-interval", "Least time between batch starts; 0s: without a pause.", Panel.run, DURATION)
    ] = "0s",
    schema_registry: SchemaRegistry = "",
    create_topics: CreateTopics = True,
    source_tasks: SourceTasks = 2,
    local: Local = False,
) -> RunOptions:
    """Raises ConfigError for flags that contradict each other."""
    check_given(checkpoint=checkpoint)
    _check_together(drain, until_caught_up, drain_until)
    _check_initial(initial_state, initial_offsets, starting_offsets)
    _check_local(local, checkpoint, spark_flags.master)
    spark_config = spark_flags.configure()
    jvm_settings.log_for(checkpoint)
    return RunOptions(
        bootstrap_servers=cluster.bootstrap_servers,
        checkpoint=checkpoint,
        topic_prefix=cluster.topic_prefix,
        application_id=application_id,
        bounded=until_caught_up or drain,
        drain=drain,
        drain_until_ms=_event_time_ms(drain_until, "--drain-until") if drain_until else None,
        idle_timeout_s=parse_ms(idle_timeout, "--idle-timeout", 1) / 1000,
        broker_skew_ms=parse_ms(broker_skew, "--broker-skew") if broker_skew else None,
        starting_offsets=starting_offsets,
        new_epoch=new_epoch,
        initial_state=initial_state,
        initial_offsets=initial_offsets,
        finish_batch=finish_batch,
        key_groups=key_groups,
        partitions=partitions,
        max_records=max_records_per_batch,
        trigger_interval_s=parse_ms(trigger_interval, "--trigger-interval") / 1000,
        registry_url=schema_registry or None,
        master=spark_flags.master or None,
        create_topics=create_topics,
        topic_partitions=new_topics.topic_partitions,
        replication=new_topics.replication(),
        kafka_config=cluster.settings(),
        spark_config=spark_config,
        source_tasks=source_tasks,
        local=local,
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
