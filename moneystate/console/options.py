"""The options of `moneystate console`, checked as far as files and flags allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moneystate.console.compared_states import NamedSavepoint
from moneystate.console.deployments import ShownCheckpoint
from moneystate.console.sessions import Sessions, rights_of
from moneystate.http import ServiceUrl
from moneystate.serving.client import Target
from moneystate.serving.https import Certificates
from moneystate.serving.tls import SecurityFlags, check_exposure, check_security
from moneystate.serving.tokens import TokenCheck


@dataclass(frozen=True)
class Security(SecurityFlags):
    def check(self, address: str) -> None:
        """Raises ConfigError for options that contradict each other, or that are unsafe at `address`."""
        check_security(self)
        check_exposure(self, address, "read state and topics")
        self.sessions()
        self.certificates()

    def sessions(self) -> Sessions:
        """Raises ConfigError."""
        if not self.token_key:
            return Sessions(None)
        return Sessions(TokenCheck(self.token_key, self.token_audience, self.token_issuer, rights_of))

    def certificates(self) -> Certificates | None:
        """Raises ConfigError."""
        files = self.tls_files()
        return None if files is None else Certificates(files)


@dataclass(frozen=True)
class ConsoleOptions:
    """`services`: references by the names of services."""

    bootstrap_servers: str
    listen: str  # HOST:PORT; port 0: any free one
    states: Sequence[Target]
    state_ca: str = ""  # of query servers, a PEM file
    metrics: Sequence[str] = ()  # HOST:PORT of jobs' metrics
    prometheus: ServiceUrl | None = None
    grafana: str = ""
    registry_url: str = ""
    topic_prefix: str = ""
    services: Mapping[str, str] = field(default_factory=dict)
    savepoints: Sequence[NamedSavepoint] = ()
    checkpoints: Sequence[ShownCheckpoint] = ()
    allow_writes: bool = False
    timeout_s: float = 10.0
    max_requests: float = 0.0  # a second of one caller; 0: any number
    kafka_config: dict[str, str] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
