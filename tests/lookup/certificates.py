"""Real certificates, made in each run: an authority, a service on 127.0.0.1, a client."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a folder; all files are PEM."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.cert, self.key = folder / "ca.pem", folder / "ca.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                 "-subj", "/CN=authority", "-keyout", str(self.key), "-out", str(self.cert))  # fmt: skip

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key for `name`, good for 127.0.0.1."""
        cert, key, asked = (self.folder / f"{name}.{ending}" for ending in ("pem", "key", "csr"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", str(key), "-out", str(asked))  # fmt: skip
        _openssl("x509", "-req", "-in", str(asked), "-CA", str(self.cert), "-CAkey", str(self.key), "-CAcreateserial",
                 "-days", "2", "-extfile", str(extensions), "-out", str(cert))  # fmt: skip
        return cert, key

    def server_context(self, asks_for_client: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self.issue("service"))
        if asks_for_client:
            context.load_verify_locations(self.cert)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
