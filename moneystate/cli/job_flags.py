"""The flags of a job of any service, as `RunOptions`."""

from __future__ import annotations

from typing import Annotated

from moneystate.cli.durations import parse_ms
from moneystate.cli.options import (
    KafkaConfig,
    KafkaConfigFile,
    MinInsyncReplicas,
    ReplicationFactor,
    SparkConfig,
    check_given,
    flag,
    kafka_settings,
    pairs,
    replication,
)
from moneystate.errors import CheckpointError, ConfigError
from moneystate.kafka.starting import EARLIEST
from moneystate.ports.service import JobSpec, ServiceSpec
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.job import RunOptions


def job_options(
    bootstrap_servers: Annotated[str, flag("BOOTSTRAP_SERVERS", "Kafka brokers, HOST:PORT,...")],
    checkpoint: Annotated[
        str, flag("CHECKPOINT", "Folder of the job's state and progress; of several services, with a folder of each.")
    ],
    topic_prefix: Annotated[str, flag("TOPIC_PREFIX", "Goes before each topic's name.")] = "",
    until_caught_up: Annotated[
        bool, flag("UNTIL_CAUGHT_UP", "Read what is in the topics at the start, then end.")
    ] = False,
    drain: Annotated[
        bool, flag("DRAIN", "At the end of a bounded run release all that waits. It ends the checkpoint.")
    ] = False,
    idle_timeout: Annotated[
        str, flag("IDLE_TIMEOUT", "In a live run, a partition without news for so long holds nothing back.")
    ] = "30s",
    starting_offsets: Annotated[
        str, flag("STARTING_OFFSETS", "For a new checkpoint: earliest, an ISO-8601 time, or a JSON file.")
    ] = EARLIEST,
    application_id: Annotated[
        str,
        flag(
            "APPLICATION_ID",
            "Names transactions, markers and the consumer group; else topic prefix and name of the service.",
        ),
    ] = "",
    new_epoch: Annotated[
        bool, flag("NEW_EPOCH", "Let a new checkpoint take over from the one that wrote the output so far.")
    ] = False,
    initial_state: Annotated[
        str, flag("INITIAL_STATE", "Folder of a savepoint that a new checkpoint begins with.")
    ] = "",
    initial_offsets: Annotated[
        str,
        flag(
            "INITIAL_OFFSETS",
            "JSON file {topic: {partition: offset}}: where to go on after a savepoint of other topics.",
        ),
    ] = "",
    finish_batch: Annotated[
        bool, flag("FINISH_BATCH", "Only run the batch that is planned, by the rules it was planned with.")
    ] = False,
    key_groups: Annotated[int, flag("KEY_GROUPS", "Key groups; fixed for the life of a checkpoint.")] = 64,
    partitions: Annotated[
        int, flag("PARTITIONS", "Partitions of the stateful operator; fixed for the life of a checkpoint.")
    ] = 4,
    max_records_per_batch: Annotated[int, flag("MAX_RECORDS_PER_BATCH", "Records of one batch at most.")] = 200_000,
    trigger_interval: Annotated[
        str, flag("TRIGGER_INTERVAL", "Least time from batch to batch; 0s: as fast as they go.")
    ] = "0s",
    schema_registry: Annotated[str, flag("SCHEMA_REGISTRY", "URL, for topics in the confluent format.")] = "",
    create_topics: Annotated[bool, flag("CREATE_TOPICS", "Create topics that are missing.")] = True,
    topic_partitions: Annotated[int, flag("TOPIC_PARTITIONS", "Partitions of topics that are created.")] = 4,
    replication_factor: ReplicationFactor = 0,
    min_insync_replicas: MinInsyncReplicas = 0,
    source_tasks: Annotated[int, flag("SOURCE_TASKS", "Tasks that read the input of a batch.")] = 2,
    master: Annotated[str, flag("MASTER", "Spark master; else what spark-submit says, or local[*].")] = "",
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
    spark_config: SparkConfig = None,
) -> RunOptions:
    """Raises ConfigError for what does not fit together."""
    check_given(bootstrap_servers=bootstrap_servers, checkpoint=checkpoint)
    check_together(drain, until_caught_up, key_groups, partitions, max_records_per_batch)
    check_initial(initial_state, initial_offsets, starting_offsets)
    return RunOptions(
        bootstrap_servers=bootstrap_servers,
        checkpoint=checkpoint,
        topic_prefix=topic_prefix,
        application_id=application_id,
        bounded=until_caught_up or drain,
        drain=drain,
        idle_timeout_s=parse_ms(idle_timeout, "--idle-timeout", 1) / 1000,
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
        master=master or None,
        create_topics=create_topics,
        topic_partitions=topic_partitions,
        replication=replication(replication_factor, min_insync_replicas),
        kafka_config=kafka_settings(kafka_config_file, kafka_config),
        spark_config=pairs(spark_config or [], "--spark-config"),
        source_tasks=source_tasks,
    )


def check_together(drain: bool, until_caught_up: bool, key_groups: int, partitions: int, max_records: int) -> None:
    """Raises ConfigError."""
    if drain and not until_caught_up:
        raise ConfigError("--drain: expected a bounded run.", "add --until-caught-up.")
    for name, value in (
        ("--key-groups", key_groups),
        ("--partitions", partitions),
        ("--max-records-per-batch", max_records),
    ):
        if value < 1:
            raise ConfigError(f"{name} {value}: expected at least 1.")
    if partitions > key_groups:
        raise ConfigError(f"--partitions {partitions}: expected no more than the {key_groups} key groups.")


def check_initial(initial_state: str, initial_offsets: str, starting_offsets: str) -> None:
    """Raises ConfigError."""
    if initial_offsets and not initial_state:
        raise ConfigError("--initial-offsets: expected --initial-state.", "use --starting-offsets without a savepoint.")
    if initial_state and starting_offsets != EARLIEST:
        raise ConfigError(
            "--starting-offsets: expected to be left out with --initial-state, which says where to go on.",
            "give --initial-offsets where its offsets are those of other topics.",
        )


def planned_job(service: ServiceSpec, checkpoint: str) -> JobSpec:
    """The job by the rules that the unfinished batch was planned with, as far as flags choose them."""
    existing = Checkpoint(checkpoint)
    planned = None if existing.is_new() else existing.planned_rules()
    if planned is None:
        raise CheckpointError(
            f"{checkpoint}: expected a planned batch to finish, there is none.", "start without --finish-batch."
        )
    return service.job(existing.rules(planned))
