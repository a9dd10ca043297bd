"""TLS and mutual TLS of the server. Certificates can be renewed while it runs."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from moneystate.errors import ConfigError
from moneystate.serving.watched import Watched


@dataclass(frozen=True)
class TlsFiles:
    """PEM files."""

    cert: str
    key: str
    client_ca: str  # clients must present a certificate signed by it; empty: they need none


class Certificates:
    """Checks the files at each handshake. Raises ConfigError at the start."""

    def __init__(self, files: TlsFiles) -> None:
        self.files = files
        try:
            self.watched = Watched("certificates", self._paths(), self._read)
        except OSError as e:
            raise ConfigError(f"{e.filename}: expected a PEM file, but {e.strerror}.", "check the path.") from None

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.dynamic_ssl_server_credentials(
            self.watched.current,
            self._changed,  # type: ignore[arg-type]  # None means "unchanged", which the types lack
            require_client_authentication=bool(self.files.client_ca),
        )

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """None: unchanged."""
        return self.watched.current if self.watched.refresh() else None

    def _paths(self) -> list[str]:
        return [path for path in (self.files.cert, self.files.key, self.files.client_ca) if path]

    def _read(self) -> grpc.ServerCertificateConfiguration:
        cert, key, *client_ca = (Path(path).read_bytes() for path in self._paths())
        _check_pair(self.files)
        return grpc.ssl_server_certificate_configuration([(key, cert)], client_ca[0] if client_ca else None)


def _check_pair(files: TlsFiles) -> None:
    """Checks that certificate and key match. gRPC would only fail at handshakes, without an error message."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(files.cert, files.key)
    except ssl.SSLError as e:
        raise ConfigError(
            f"{files.cert}, {files.key}: expected a certificate and its key, but {e.reason}.",
            "give files that belong together.",
        ) from None
