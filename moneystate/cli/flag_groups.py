"""Options that commands take together, each list once, with what they mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moneystate.cli.durations import parse_ms
from moneystate.cli.option import DURATION, NUMBER, PAIR, PATH, Flags, Panel, check_given, flag, pairs, repeated_flag
from moneystate.cli.options import (
    MAX_PORT,
    MAX_RECORD_BYTES,
    BootstrapServers,
    Format,
    MaxRecordBytes,
    SchemaRegistry,
    SparkConfig,
    TlsCa,
    TlsCert,
    TlsKey,
    TopicPrefix,
)
from moneystate.errors import ConfigError
from moneystate.job.storage import jvm_settings
from moneystate.kafka import settings
from moneystate.kafka.topics import Replication

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from moneystate.monitoring import Check

FORMATS = ("avro", "json", "confluent")


@dataclass(frozen=True)
class KafkaFlags(Flags):
    """Describes how all Kafka clients are set."""

    kafka_config: list[str] | None = repeated_flag(
        "A setting of all Kafka clients (librdkafka); secrets as ${env:NAME} or ${file:PATH}.", Panel.kafka, PAIR
    )
    kafka_config_file: Path | None = flag(
        None, "Properties file of such settings; --kafka-config overrides it.", Panel.kafka, PATH
    )

    def settings(self) -> dict[str, str]:
        """Raises ConfigError."""
        return settings.kafka_settings(self.kafka_config_file, pairs(self.kafka_config or [], settings.FLAG))


@dataclass(frozen=True)
class ClusterFlags(Flags):
    """Describes the brokers, how clients are set, and the prefix of topics. Raises ConfigError for no brokers."""

    bootstrap_servers: BootstrapServers
    kafka_flags: KafkaFlags
    topic_prefix: TopicPrefix = ""

    def __post_init__(self) -> None:
        check_given(bootstrap_servers=self.bootstrap_servers)

    def settings(self) -> dict[str, str]:
        """The settings of all Kafka clients. Raises ConfigError."""
        return self.kafka_flags.settings()


@dataclass(frozen=True)
class SecurityFlags(Flags):
    """Describes how servers encrypt, and know their callers."""

    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""
    tls_ca: TlsCa = ""
    token_key: str = flag(
        "", "Checks callers' tokens (JWT): a public key as PEM, or a JWK set. Read again when it changes.",
        Panel.security, PATH,
    )  # fmt: skip
    token_audience: str = flag("", "Tokens must be for this audience.", Panel.security, "NAME")
    token_issuer: str = flag("", "Tokens must be from this issuer.", Panel.security, "NAME")


@dataclass(frozen=True)
class ClientFlags(Flags):
    """Describes how clients encrypt, and say who they are."""

    tls_ca: TlsCa = ""
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""
    token_file: str = flag("", "File with the bearer token to send.", Panel.security, PATH)


@dataclass(frozen=True)
class MetricsFlags(Flags):
    """Describes where Prometheus finds metrics."""

    metrics_port: int = flag(
        0, "Port of Prometheus metrics, /livez and /readyz; 0: none.", Panel.metrics, "PORT", least=0, most=MAX_PORT
    )
    metrics_host: str = flag(
        "127.0.0.1",
        "Address for --metrics-port. Metrics need no token, so with 0.0.0.0 everybody can read them.",
        Panel.metrics, "HOST",
    )  # fmt: skip

    def expose(self, metrics: Collector, live: Check, ready: Check) -> None:
        """Answers until the process ends, if there is a port. Raises SetupError."""
        if self.metrics_port:
            from moneystate.monitoring import expose  # here: most commands have no metrics

            expose(self.metrics_host, self.metrics_port, metrics, live, ready)


@dataclass(frozen=True)
class StoreFlags(Flags):
    """Describes how folders in stores are reached: by Spark."""

    spark_config: SparkConfig = None

    def configure(self) -> dict[str, str]:
        """Sets up the JVM of this process, and returns Spark's settings. Raises ConfigError."""
        return SparkFlags("", self.spark_config).configure()


@dataclass(frozen=True)
class SparkFlags(Flags):
    """Describes how Spark is started."""

    master: str = flag("", "Spark master; default: the one of spark-submit, or local[*].", Panel.spark, "URL")
    spark_config: SparkConfig = None

    def configure(self) -> dict[str, str]:
        """Sets up the JVM of this process, and returns Spark's settings. Raises ConfigError."""
        of_spark = pairs(self.spark_config or [], "--spark-config")
        jvm_settings.configure(of_spark, self.master)
        return of_spark


@dataclass(frozen=True)
class NewTopicFlags(Flags):
    """Describes how topics are created."""

    topic_partitions: int = flag(4, "Partitions of topics that are created.", Panel.topics, NUMBER, least=1)
    replication_factor: int = flag(
        0, "Replicas of topics that are created; 0: the broker's default.", Panel.topics, NUMBER, least=0
    )
    min_insync_replicas: int = flag(
        0, "min.insync.replicas of topics that are created; 0: the broker's default.", Panel.topics, NUMBER, least=0
    )

    def replication(self) -> Replication:
        """Raises ConfigError."""
        factor, min_insync = self.replication_factor, self.min_insync_replicas
        if factor and min_insync > factor:
            raise ConfigError(
                f"--min-insync-replicas {min_insync}: expected no more than the {factor} replicas of "
                "--replication-factor.",
                f"give at most {factor}, or raise --replication-factor.",
            )
        return Replication(factor, min_insync)


@dataclass(frozen=True)
class FormatFlags(Flags):
    """Describes how topics are read and written."""

    format: Format = None
    schema_registry: SchemaRegistry = ""

    def by_topic(
        self, known: list[str], declared: Mapping[str, str] | None = None, decoded: Collection[str] = ()
    ) -> dict[str, str]:
        """The formats of the topics `known`, without prefix. `declared`: formats of topics that no flag names;
        `decoded`: topics that only functions of the service read. Raises ConfigError."""
        declared, given = declared or {}, pairs(self.format or [], "--format")
        for topic in given:
            if topic in decoded:
                raise ConfigError(
                    f"--format {topic}={given[topic]}: expected a topic with a format, found one that the service "
                    "decodes.",
                    "leave the flag out; if the service has a configuration for the topic, change that.",
                )
        by_topic = {**declared, **given}
        for topic, name in by_topic.items():
            if topic not in known:
                raise ConfigError(
                    f"--format {topic}={name}: expected a topic of the job, found {topic}.",
                    f"name one of {', '.join(known)}, without --topic-prefix.",
                )
            if name not in FORMATS and name != declared.get(topic):
                raise ConfigError(
                    f"--format {topic}={name}: expected a format, found {name}.", f"give one of {', '.join(FORMATS)}."
                )
            if name == "confluent" and not self.schema_registry:
                raise ConfigError(f"--format {topic}={name}: expected a schema registry.", "add --schema-registry URL.")
        return by_topic


@dataclass(frozen=True)
class RuleFlags(Flags):
    """The rules that every service has."""

    bound: str = flag("20s", "Out-of-orderness bound of all inputs.", Panel.rules, DURATION)
    max_future: str = flag(
        "10m", "A record further ahead of its Kafka timestamp is a dead letter.", Panel.rules, DURATION
    )
    max_record_bytes: MaxRecordBytes = MAX_RECORD_BYTES

    def rules(self) -> dict[str, Any]:
        """The rules by name. Raises ConfigError."""
        return {
            "bound_ms": parse_ms(self.bound, "--bound"),
            "max_future_ms": parse_ms(self.max_future, "--max-future"),
            "max_record_bytes": self.max_record_bytes,
        }
