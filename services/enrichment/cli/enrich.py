"""`moneystate enrich`: the money enrichment, live or bounded."""

from __future__ import annotations

import json
import signal
from typing import Annotated

import typer

from moneystate.cli.display import Display
from moneystate.cli.durations import parse_ms
from moneystate.cli.job_flags import check_initial, check_together, planned_job
from moneystate.cli.options import (
    BOUND,
    DEDUP_TTL,
    MAX_FUTURE,
    MAX_RECORD_BYTES,
    Bound,
    Format,
    KafkaConfig,
    KafkaConfigFile,
    MaxFuture,
    MaxRecordBytes,
    MinInsyncReplicas,
    ReplicationFactor,
    SessionLookup,
    SparkConfig,
    check_given,
    flag,
    formats,
    kafka_settings,
    pairs,
    replication,
)
from moneystate.kafka.starting import parse_start
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.job import Job, RunOptions
from services.enrichment.job import ENRICHMENT, FORMATTED, enrichment_job
from services.enrichment.rules import Rules


def enrich(
    bootstrap_servers: Annotated[str, flag("BOOTSTRAP_SERVERS", "Kafka brokers, HOST:PORT,...")],
    checkpoint: Annotated[str, flag("CHECKPOINT", "Folder of the job's state and progress.")],
    topic_prefix: Annotated[str, flag("TOPIC_PREFIX", "Goes before each topic's name.")] = "",
    until_caught_up: Annotated[
        bool, flag("UNTIL_CAUGHT_UP", "Read what is in the topics at the start, then end.")
    ] = False,
    drain: Annotated[
        bool, flag("DRAIN", "At the end of a bounded run release all that waits. It ends the checkpoint.")
    ] = False,
    bound: Bound = BOUND,
    session_ttl: Annotated[str, flag("SESSION_TTL", "How long after its creation a session is valid.")] = "1d",
    dedup_ttl: Annotated[str, flag("DEDUP_TTL", "How long a money id is remembered.")] = DEDUP_TTL,
    session_wait: Annotated[str, flag("SESSION_WAIT", "How long money waits for its session.")] = "60s",
    max_future: MaxFuture = MAX_FUTURE,
    max_record_bytes: MaxRecordBytes = MAX_RECORD_BYTES,
    idle_timeout: Annotated[
        str, flag("IDLE_TIMEOUT", "In a live run, a partition without news for so long holds nothing back.")
    ] = "30s",
    starting_offsets: Annotated[
        str, flag("STARTING_OFFSETS", "For a new checkpoint: earliest, an ISO-8601 time, or a JSON file.")
    ] = "earliest",
    application_id: Annotated[
        str,
        flag(
            "APPLICATION_ID",
            "Names transactions, markers and the consumer group; else the topic prefix, or moneystate.",
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
    format: Format = None,
    schema_registry: Annotated[str, flag("SCHEMA_REGISTRY", "URL, for topics in the confluent format.")] = "",
    session_lookup: Annotated[
        SessionLookup, flag("SESSION_LOOKUP", "topic: write lookup requests and read the replies.")
    ] = SessionLookup.none,
    lookup_deadline: Annotated[
        str, flag("LOOKUP_DEADLINE", "With --drain: how long to wait for the replies of open lookups.")
    ] = "10m",
    create_topics: Annotated[bool, flag("CREATE_TOPICS", "Create topics that are missing.")] = True,
    topic_partitions: Annotated[int, flag("TOPIC_PARTITIONS", "Partitions of topics that are created.")] = 4,
    replication_factor: ReplicationFactor = 0,
    min_insync_replicas: MinInsyncReplicas = 0,
    source_tasks: Annotated[int, flag("SOURCE_TASKS", "Tasks that read the input of a batch.")] = 2,
    master: Annotated[str, flag("MASTER", "Spark master; else what spark-submit says, or local[*].")] = "",
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
    spark_config: SparkConfig = None,
    json_output: Annotated[bool, typer.Option("--json", help="At the end print the run in numbers, as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Enrich money events with sessions and user info, in event-time order, exactly once.

    Ends with code 0 after --until-caught-up or SIGTERM, once the batch in hand is finished.
    """
    bounded = until_caught_up or drain
    check_given(bootstrap_servers=bootstrap_servers, checkpoint=checkpoint)
    rules = Rules(
        bound_ms=parse_ms(bound, "--bound"),
        session_ttl_ms=parse_ms(session_ttl, "--session-ttl", 1),
        dedup_ttl_ms=parse_ms(dedup_ttl, "--dedup-ttl", 1),
        session_wait_ms=parse_ms(session_wait, "--session-wait"),
        max_future_ms=parse_ms(max_future, "--max-future"),
        lookup=session_lookup is SessionLookup.topic,
        max_record_bytes=max_record_bytes,
    )
    spec = planned_job(ENRICHMENT, checkpoint) if finish_batch else enrichment_job(rules)
    parse_start(starting_offsets, [t.name for t in spec.inputs])  # before a broker is asked
    check_together(drain, until_caught_up, key_groups, partitions, max_records_per_batch)
    check_initial(initial_state, initial_offsets, starting_offsets)
    options = RunOptions(
        bootstrap_servers=bootstrap_servers,
        checkpoint=checkpoint,
        topic_prefix=topic_prefix,
        application_id=application_id,
        bounded=bounded,
        drain=drain,
        replies_s=parse_ms(lookup_deadline, "--lookup-deadline") / 1000,
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
        formats=formats(format or [], schema_registry, FORMATTED),
        registry_url=schema_registry or None,
        master=master or None,
        create_topics=create_topics,
        topic_partitions=topic_partitions,
        replication=replication(replication_factor, min_insync_replicas),
        kafka_config=kafka_settings(kafka_config_file, kafka_config),
        spark_config=pairs(spark_config or [], "--spark-config"),
        source_tasks=source_tasks,
    )
    with Display(quiet) as display:
        job = Job(spec, options, display.batch, on_publish=display.publishing, on_new_inputs=display.new_inputs)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: job.stop())
        job.run()
    _say_goodbye(display, bounded, drain, Checkpoint(checkpoint).open_requests())
    if json_output:
        typer.echo(json.dumps(display.totals()))


def _say_goodbye(display: Display, bounded: bool, drain: bool, open_requests: int) -> None:
    if open_requests and not display.quiet:
        display.console.print(
            f"[yellow]{open_requests:,} lookups are open: their money has not been put out.[/] "
            "Run the same command again once they are answered.",
            highlight=False,
            soft_wrap=True,
        )
    display.goodbye(bounded and not drain)
