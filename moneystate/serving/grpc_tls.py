"""TLS and mutual TLS of the gRPC server. It looks at the files at each handshake."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc

from moneystate.serving.tls import TlsFiles


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Raises ConfigError."""
    watched = files.watched(lambda: _read(files))
    return grpc.dynamic_ssl_server_credentials(
        watched.current,
        lambda: watched.current if watched.refresh() else None,  # type: ignore[arg-type,return-value]  # None: unchanged
        require_client_authentication=bool(files.client_ca),
    )


def _read(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    pair = [(Path(files.key).read_bytes(), Path(files.cert).read_bytes())]
    client_ca = Path(files.client_ca).read_bytes() if files.client_ca else None
    # gRPC would only fail at handshakes, without an error message
    files.load_pair(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
    return grpc.ssl_server_certificate_configuration(pair, client_ca)
