"""The flags of TLS and tokens that servers share, and their certificates. Certificates can be renewed while a server
runs."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from moneystate.errors import ConfigError
from moneystate.serving import addresses
from moneystate.serving.watched import Watched

Content = TypeVar("Content")


@dataclass(frozen=True)
class TlsFiles:
    """PEM files."""

    cert: str
    key: str
    client_ca: str  # clients must present a certificate signed by it; empty: they need none

    def watched(self, read: Callable[[], Content]) -> Watched[Content]:
        """Returns what `read` makes of the files, made again when they change. Raises ConfigError."""
        paths = [path for path in (self.cert, self.key, self.client_ca) if path]
        try:
            return Watched("certificates", paths, read)
        except OSError as e:
            raise ConfigError(f"{e.filename}: expected a PEM file, but {e.strerror}.", "check the path.") from None

    def load_pair(self, context: ssl.SSLContext) -> None:
        """Raises ConfigError if certificate and key do not match."""
        try:
            context.load_cert_chain(self.cert, self.key)
        except ssl.SSLError as e:
            raise ConfigError(
                f"{self.cert}, {self.key}: expected a certificate and its key, but {e.reason}.",
                "give files that belong together.",
            ) from None


@dataclass(frozen=True)
class SecurityFlags:
    """Transport security, tokens and the audit log of a server. Empty: not used."""

    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""
    token_key: str = ""
    token_audience: str = ""
    token_issuer: str = ""
    audit_log: str = ""

    def tls_files(self) -> TlsFiles | None:
        return TlsFiles(self.tls_cert, self.tls_key, self.client_ca) if self.tls_cert else None

    def warnings(self) -> list[str]:
        """Warnings for the operator about what the flags leave open."""
        if self.token_key and not self.token_audience:
            return ["without --token-audience, tokens that their issuer made for other services are accepted too."]
        return []


def check_security(flags: SecurityFlags) -> None:
    """Raises ConfigError for flags that contradict each other."""
    if bool(flags.tls_cert) != bool(flags.tls_key):
        raise ConfigError("--tls-cert, --tls-key: expected both or neither, found one.", "give the other, too.")
    if flags.client_ca and not flags.tls_cert:
        raise ConfigError("--tls-ca: expected a server certificate as well.", "add --tls-cert and --tls-key.")
    if (flags.token_audience or flags.token_issuer) and not flags.token_key:
        raise ConfigError(
            "--token-audience, --token-issuer: expected a key to check tokens with, found none.", "add --token-key."
        )


def is_guarded(flags: SecurityFlags) -> bool:
    """Whether other machines may reach the server: it encrypts, and knows its callers."""
    return bool(flags.tls_cert) and bool(flags.token_key or flags.client_ca)


def check_exposure(flags: SecurityFlags, address: str, could: str) -> None:
    """Raises ConfigError for an address that other machines reach, without TLS or without authentication. `could`: what
    they could do."""
    if not is_guarded(flags) and not addresses.is_loopback(address):
        raise ConfigError(
            f"--listen {address}: expected a loopback address, because other machines could {could} "
            "without encryption or without authentication.",
            "add --tls-cert, --tls-key, and --token-key or --tls-ca.",
        )
