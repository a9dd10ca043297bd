"""The options that several commands share, each declared once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from moneystate.cli.option import (
    ADDRESS,
    ADDRESSES,
    DURATION,
    NUMBER,
    PAIR,
    PATH,
    PATH_OR_URI,
    TIME,
    VERSION,
    Panel,
    choice,
    option,
    repeated,
)
from moneystate.log import Level

MAX_RECORD_BYTES = 128 * 1024
MIN_RECORD_BYTES = 1024
MAX_PORT = 65_535

# Options whose default is shown in different ways, or whose variables have different prefixes
service_option = partial(
    option, "service", "A service: its short name, or MODULE:NAME with a module or its file.", Panel.service, "SERVICE"
)
key_groups = partial(
    option, "key-groups", "Key groups; fixed for the life of a checkpoint.", Panel.state, NUMBER, least=1
)
partitions = partial(
    option, "partitions", "Partitions of the stateful operator; fixed for the life of a checkpoint.", Panel.state,
    NUMBER, least=1,
)  # fmt: skip
work_folder = partial(
    option, "work", "Folder for intermediate files; on a cluster, one that all machines share.", Panel.state, PATH
)
source_tasks = partial(option, "source-tasks", "Tasks that read the input.", Panel.input, NUMBER, least=1)
audit_target = partial(option, "audit-log", "File of the audit log, or - for stdout.", Panel.security, "PATH|-")
consumer_group = partial(option, "group-id", "Consumer group of all workers.", Panel.run, "NAME")
error_choice = partial(
    choice, "on-error", "What an exception in a step does: end the job, or make a dead letter.", Panel.run
)
seed = partial(option, "seed", "The same seed generates the same data.", Panel.run, NUMBER)
port = partial(option, "port", "Port on 127.0.0.1; 0: any free one.", Panel.run, "PORT", least=0, most=MAX_PORT)

# service

AnyService = Annotated[str, service_option(shown="none")]
GivenService = Annotated[str, service_option()]
ServiceOfState = Annotated[str, service_option(shown="the one of this project that the state names")]

MaxRecordBytes = Annotated[int, option(
    "max-record-bytes",
    "An event with a larger value is a dead letter, and `ingest` refuses it: not every format could hold it.",
    Panel.rules, NUMBER, least=MIN_RECORD_BYTES,
)]  # fmt: skip

# checkpoint and state

CheckpointFolder = Annotated[
    str, option("checkpoint", "Folder of a job's state and progress.", Panel.state, PATH_OR_URI)
]
ReplicaFolder = Annotated[
    str, option("data", "Folder of the replica; created if it does not exist.", Panel.server, PATH)
]
Savepoint = Annotated[str, option("out", "Folder of the savepoint to make.", Panel.state, PATH_OR_URI)]
ApplicationId = Annotated[str, option(
    "application-id", "Names transactions, markers and the consumer group.", Panel.state, "NAME",
    shown="topic prefix and service",
)]  # fmt: skip

KeyGroups = Annotated[int, key_groups()]
SameKeyGroups = Annotated[int | None, key_groups(shown="as they are")]
Partitions = Annotated[int, partitions()]
SamePartitions = Annotated[int | None, partitions(shown="as they are")]

# history and input

StartingOffsets = Annotated[str, option(
    "starting-offsets",
    "Where a new checkpoint or archive begins: earliest, an ISO-8601 time, or a JSON file of offsets.",
    Panel.input, "earliest|TIME|PATH",
)]  # fmt: skip
AsOf = Annotated[str, option(
    "as-of", "Where the history ends: end, an ISO-8601 time of Kafka timestamps, or a JSON file of offsets.",
    Panel.input, "end|TIME|PATH",
)]  # fmt: skip
InitialHighs = Annotated[Path | None, option(
    "initial-highs",
    "JSON file {topic: {partition: ms or null}}: highest event times before ranges that do not start at the "
    "partition's beginning.",
    Panel.input, PATH,
)]  # fmt: skip

SourceTasks = Annotated[int, source_tasks()]
SourceTasksOrCores = Annotated[int | None, source_tasks(shown="one for each core")]
MaxRecordsPerChunk = Annotated[
    int, option("max-records-per-chunk", "Most records in one chunk.", Panel.input, NUMBER, least=1)
]

# topics

TopicPrefix = Annotated[str, option("topic-prefix", "Prefix of each topic's name.", Panel.topics, "TEXT")]
Format = Annotated[
    list[str] | None,
    repeated("format", "Format of a topic, without its prefix: avro, json or confluent.", Panel.topics, "TOPIC=FORMAT"),
]
SchemaRegistry = Annotated[str, option("schema-registry", "For topics in the confluent format.", Panel.topics, "URL")]
MaxRequests = Annotated[
    int,
    option("max-requests", "Requests a second that one caller may make; 0: any number.", Panel.server, NUMBER, least=0),
]
CreateTopics = Annotated[bool, option("create-topics", "Create topics that are missing.", Panel.topics, shown="on")]

# Kafka and Spark

BootstrapServers = Annotated[str, option("bootstrap-servers", "Kafka brokers.", Panel.kafka, ADDRESSES)]
Local = Annotated[
    bool, option("local", "Run in this process, without Spark: for a laptop, a test or few records.", Panel.run)
]
SparkConfig = Annotated[list[str] | None, repeated("spark-config", "A setting of Spark.", Panel.spark, PAIR)]

# TLS: the same names for both sides

TlsCa = Annotated[str, option(
    "tls-ca",
    "PEM file: the authorities that may sign the other side's certificate. With it, queries use TLS, and serve "
    "requires certificates from callers.",
    Panel.security, PATH,
)]  # fmt: skip
TlsCert = Annotated[
    str, option("tls-cert", "PEM file: the certificate to present. Read again when it changes.", Panel.security, PATH)
]
TlsKey = Annotated[str, option("tls-key", "PEM file: the key of --tls-cert.", Panel.security, PATH)]

# server

Listen = Annotated[str, option("listen", "Address to listen on; port 0: a free one.", Panel.server, ADDRESS)]
Announce = Annotated[str, option(
    "announce", "Address under which the console finds this command; without a port, its own.", Panel.server,
    "HOST[:PORT]", shown="it is not announced",
)]  # fmt: skip
Grace = Annotated[
    str, option("grace", "How long running calls may take to finish after SIGTERM.", Panel.server, DURATION)
]
Traces = Annotated[bool, option(
    "traces", "Send traces of OpenTelemetry over OTLP/HTTP. OTEL_EXPORTER_OTLP_ENDPOINT says where.", Panel.telemetry
)]  # fmt: skip

# questions

AtVersion = Annotated[str, option("at-version", "As of this version.", Panel.question, VERSION)]
AtTime = Annotated[str, option("at-time", "As of this event time, ISO-8601 with its zone.", Panel.question, TIME)]

# output

Limit = Annotated[int, option("limit", "Show at most this many.", Panel.output, NUMBER, least=1)]
Json = Annotated[bool, option("json", "Print JSON, for programs.", Panel.output)]
Quiet = Annotated[bool, option("quiet", "Show no progress.", Panel.output)]
LogLevel = Annotated[Level, choice("log-level", "The least level of lines in the log on stderr.", Panel.output, Level)]
