"""The options of `moneystate ingest`, checked as far as files and flags allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moneystate.ingest.app import Limits
from moneystate.ingest.audit import Audit
from moneystate.ingest.callers import Callers
from moneystate.ingest.rights import rights_of
from moneystate.kafka.topics import AS_THE_BROKER, Replication
from moneystate.serving.http_security import HttpSecurity
from moneystate.serving.tls import check_exposure, check_security


@dataclass(frozen=True)
class Security(HttpSecurity):
    def check(self, address: str) -> None:
        """Raises ConfigError for options that contradict each other, or that are unsafe at `address`."""
        check_security(self)
        check_exposure(self, address, "write records")
        self.callers()
        self.certificates()
        self.audit().close()

    def callers(self) -> Callers:
        """Raises ConfigError."""
        return Callers(self.tokens(rights_of))

    def audit(self) -> Audit:
        """Raises ConfigError."""
        return Audit(self.audit_log)

    def in_words(self, address: str) -> str:
        return self.described(address, without_tokens="write all topics")


@dataclass(frozen=True)
class TopicOptions:
    prefix: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    registry_url: str = ""
    create: bool = True
    partitions: int = 4  # of topics that are created
    key_partitions: int = 4
    replication: Replication = AS_THE_BROKER
    max_record_bytes: int = 128 * 1024


@dataclass(frozen=True)
class IngestOptions:
    services: Sequence[str]  # references
    bootstrap_servers: str
    listen: str  # HOST:PORT; port 0: any free one
    topics: TopicOptions
    limits: Limits
    timeout_s: float = 5.0
    keep_ms: int = 3_600_000
    key_memory_bytes: int = 256 << 20
    grace_s: float = 10.0
    pages: bool = True
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
    kafka_config: dict[str, str] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
