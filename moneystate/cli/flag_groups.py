"""Options that commands take together, each list once, with what they mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moneystate.cli.durations import parse_ms
from moneystate.cli.option import Flags, check_given, pairs
from moneystate.cli.options import (
    BOUND,
    MAX_FUTURE,
    MAX_RECORD_BYTES,
    BootstrapServers,
    Bound,
    Format,
    KafkaConfig,
    KafkaConfigFile,
    Master,
    MaxFuture,
    MaxRecordBytes,
    MetricsHost,
    MetricsPort,
    MinInsyncReplicas,
    ReplicationFactor,
    SchemaRegistry,
    SparkConfig,
    TlsCa,
    TlsCert,
    TlsKey,
    TokenAudience,
    TokenFile,
    TokenIssuer,
    TokenKey,
    TopicPartitions,
    TopicPrefix,
)
from moneystate.cli.topic_formats import formats
from moneystate.errors import ConfigError
from moneystate.job.storage import jvm_settings
from moneystate.kafka import settings
from moneystate.kafka.topics import Replication

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from moneystate.monitoring import Check


@dataclass(frozen=True)
class KafkaFlags(Flags):
    """Describes how all Kafka clients are set."""

    kafka_config: KafkaConfig = None
    kafka_config_file: KafkaConfigFile = None

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
    token_key: TokenKey = ""
    token_audience: TokenAudience = ""
    token_issuer: TokenIssuer = ""

    def given(self) -> tuple[str, str, str, str, str, str]:
        """The first fields of `moneystate.serving.tls.SecurityFlags`."""
        return self.tls_cert, self.tls_key, self.tls_ca, self.token_key, self.token_audience, self.token_issuer


@dataclass(frozen=True)
class ClientFlags(Flags):
    """Describes how clients encrypt, and say who they are."""

    tls_ca: TlsCa = ""
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""
    token_file: TokenFile = ""


@dataclass(frozen=True)
class MetricsFlags(Flags):
    """Describes where Prometheus finds metrics."""

    metrics_port: MetricsPort = 0
    metrics_host: MetricsHost = "127.0.0.1"

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

    master: Master = ""
    spark_config: SparkConfig = None

    def configure(self) -> dict[str, str]:
        """Sets up the JVM of this process, and returns Spark's settings. Raises ConfigError."""
        of_spark = pairs(self.spark_config or [], "--spark-config")
        jvm_settings.configure(of_spark, self.master)
        return of_spark


@dataclass(frozen=True)
class NewTopicFlags(Flags):
    """Describes how topics are created."""

    topic_partitions: TopicPartitions = 4
    replication_factor: ReplicationFactor = 0
    min_insync_replicas: MinInsyncReplicas = 0

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
        """The formats of the topics `known`, as `formats` says. Raises ConfigError."""
        return formats(self.format or [], self.schema_registry, known, declared, decoded)


@dataclass(frozen=True)
class RuleFlags(Flags):
    """The rules that every service has."""

    bound: Bound = BOUND
    max_future: MaxFuture = MAX_FUTURE
    max_record_bytes: MaxRecordBytes = MAX_RECORD_BYTES

    def rules(self) -> dict[str, Any]:
        """The rules by name. Raises ConfigError."""
        return {
            "bound_ms": parse_ms(self.bound, "--bound"),
            "max_future_ms": parse_ms(self.max_future, "--max-future"),
            "max_record_bytes": self.max_record_bytes,
        }
