"""The certificates of servers that speak HTTP. They can be renewed while a server runs."""

from __future__ import annotations

import ssl

from moneystate.serving.tls import TlsFiles


class Certificates:
    """The context of TLS. It looks at the files at each handshake."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises ConfigError."""
        self._files = files
        self._watched = files.watched(self._load)
        self.context = self._load()
        self.context.sni_callback = self._handshake

    def _handshake(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        self._watched.refresh()
        connection.context = self._watched.current

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        self._files.load_pair(context)
        if self._files.client_ca:
            context.load_verify_locations(self._files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context
