"""The options of a query server, checked as far as files and flags allow."""

from __future__ import annotations

from dataclasses import dataclass, field

import grpc

from moneystate.errors import ConfigError
from moneystate.serving import addresses
from moneystate.serving.audit import Audit
from moneystate.serving.callers import SCOPES, Callers, scopes_of
from moneystate.serving.grpc_tls import server_credentials
from moneystate.serving.limits import Limits
from moneystate.serving.tls import SecurityFlags, check_exposure, check_security
from moneystate.serving.tokens import TokenCheck


@dataclass(frozen=True)
class Security(SecurityFlags):
    scopes: str = ""  # of callers if no tokens are required, separated by commas

    def check(self, address: str) -> None:
        """Raises ConfigError for options that contradict each other, or that are unsafe at `address`."""
        check_security(self)
        if self.scopes and self.token_key:
            raise ConfigError(
                "--scopes: expected no --token-key, found both: with tokens, these say what callers may do.",
                "leave one out.",
            )
        check_exposure(self, address, "read everything")
        self.granted(address)
        self.callers(address)
        self.credentials()
        self.audit().close()

    def granted(self, address: str) -> frozenset[str]:
        """The scopes of callers without a token. Raises ConfigError."""
        if self.scopes:
            scopes = frozenset(s.strip() for s in self.scopes.split(","))
            if not scopes <= SCOPES:
                raise ConfigError(
                    f"--scopes {self.scopes}: expected other scopes.", f"use some of {','.join(sorted(SCOPES))}."
                )
            return scopes
        if addresses.is_loopback(address):
            return SCOPES
        if not self.token_key:
            raise ConfigError(
                f"--listen {address}: expected the scopes of callers with a certificate, found none.",
                "add --scopes state.read, or --token-key.",
            )
        return frozenset()

    def callers(self, address: str) -> Callers:
        """Raises ConfigError."""
        if not self.token_key:
            return Callers(None, self.granted(address), bool(self.client_ca))
        tokens = TokenCheck(self.token_key, self.token_audience, self.token_issuer, scopes_of)
        return Callers(tokens, frozenset(), bool(self.client_ca))

    def credentials(self) -> grpc.ServerCredentials | None:
        """Raises ConfigError."""
        files = self.tls_files()
        return None if files is None else server_credentials(files)

    def audit(self) -> Audit:
        """The audit log. It is on by default if callers can be told apart. Raises ConfigError."""
        return Audit(self.audit_log or ("-" if self.token_key or self.client_ca else ""))

    def in_words(self, address: str) -> str:
        transport = "mutual TLS" if self.client_ca else "TLS" if self.tls_cert else "no TLS"
        who = "tokens" if self.token_key else "no tokens"
        local = ", this machine only" if addresses.is_loopback(address) else ""
        may = "" if self.token_key else f", callers may do {','.join(sorted(self.granted(address)))}"
        return f"{transport}, {who}{local}{may}"


@dataclass(frozen=True)
class ServeOptions:
    """Options of `moneystate serve`."""

    bootstrap_servers: str
    data: str
    listen: str  # HOST:PORT; port 0: any free one
    announced: str = ""  # HOST:PORT under which others reach the server, or HOST; empty: it is not announced
    topic_prefix: str = ""
    history_ms: int | None = None
    history_versions: int | None = None
    workers: int = 1
    grace_s: float = 10.0
    metrics_port: int = 0  # 0: no metrics
    metrics_host: str = "127.0.0.1"
    traces: bool = False
    page_token_key: str = ""  # a file; empty: one in `data`
    from_snapshot: str = ""  # folder of the savepoint that an empty `data` is loaded from; empty: none
    kafka_config: dict[str, str] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
    limits: Limits = field(default_factory=Limits)
