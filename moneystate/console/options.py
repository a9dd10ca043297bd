"""The options of `moneystate console`, checked as far as files and flags allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moneystate.console.compared_states import NamedSavepoint
from moneystate.console.deployments import ShownCheckpoint
from moneystate.console.oidc import CALLBACK, OidcClient, is_safe
from moneystate.console.sessions import Sessions, rights_of
from moneystate.errors import ConfigError
from moneystate.http import ServiceUrl
from moneystate.serving.client import Target
from moneystate.serving.http_security import HttpSecurity
from moneystate.serving.tls import check_exposure, check_security


@dataclass(frozen=True)
class Security(HttpSecurity):
    def check(self, address: str) -> None:
        """Raises ConfigError for options that contradict each other, or that are unsafe at `address`."""
        check_security(self)
        check_exposure(self, address, "read state and topics")
        self.sessions()
        self.certificates()

    def sessions(self) -> Sessions:
        """Raises ConfigError."""
        return Sessions(self.tokens(rights_of))


def check_oidc(client: OidcClient, has_keys: bool) -> None:
    """Raises ConfigError."""
    if not has_keys:
        raise ConfigError(
            "--oidc-issuer: expected --token-key as well, found none.",
            "give the provider's keys as a JWK set: its access tokens are checked with it, here and by query servers.",
        )
    for flag, url in (("--oidc-issuer", client.issuer), ("--oidc-redirect", client.redirect)):
        if not is_safe(url):
            raise ConfigError(f"{flag} {url}: expected an https URL.", "only on this machine it may be http.")
    if not client.redirect.endswith(CALLBACK) or "?" in client.redirect:
        raise ConfigError(
            f"--oidc-redirect {client.redirect}: expected the URL of {CALLBACK} at this console.",
            f"for example https://console.example.org{CALLBACK}.",
        )
    if not client.client_id or "openid" not in client.scopes.split():
        raise ConfigError(
            "--oidc-issuer: expected --oidc-client, and openid among --oidc-scopes.",
            "register the console as a client of the provider.",
        )


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
    oidc: OidcClient | None = None

    def check(self) -> None:
        """Raises ConfigError."""
        self.security.check(self.listen)
        if self.oidc is not None:
            check_oidc(self.oidc, bool(self.security.token_key))
