"""The options of the interface, checked as far as files and flags allow."""

from __future__ import annotations

from dataclasses import dataclass, field

from moneystate.deliver.interface.audit import Audit
from moneystate.deliver.interface.callers import Callers
from moneystate.deliver.interface.rights import rights_of
from moneystate.kafka.topics import AS_THE_BROKER, Replication
from moneystate.serving.http_security import HttpSecurity
from moneystate.serving.tls import check_exposure, check_security


@dataclass(frozen=True)
class Security(HttpSecurity):
    def check(self, address: str) -> None:
        """Raises ConfigError for options that contradict each other, or that are unsafe at `address`."""
        check_security(self)
        check_exposure(self, address, "read and redirect customers' messages")
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
        return self.described(address, without_tokens="do everything")


@dataclass(frozen=True)
class InterfaceOptions:
    router: str  # reference of the service that writes deliveries: its schemas, and its rules for subscriptions
    bootstrap_servers: str
    listen: str  # HOST:PORT; port 0: any free one
    secrets: str  # folder or file
    secrets_key: str = ""  # file of the key; empty: the secrets are a folder
    topic_prefix: str = ""
    allow_http: bool = False  # endpoints may have URLs without TLS
    create_topics: bool = True
    table_partitions: int = 1  # of tables that are created
    replication: Replication = AS_THE_BROKER
    max_requests: float = 0.0  # a second of a caller; 0: any number
    kafka_config: dict[str, str] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
