"""Real certificates and tokens, made in each run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypeAlias

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
ALL_SCOPES = "state.read state.read.personal state.admin"


class Pki:
    """A certificate authority with a server's and a client's certificate, and a key that signs tokens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = self.write("ca.pem", self.authority.cert_pem.bytes())
        self.cert, self.key = self.issue("server", self.authority)
        self.client_cert, self.client_key = self.issue("client", self.authority)
        self.stranger_cert, self.stranger_key = self.issue("stranger", trustme.CA())
        self.token_secret = ed25519.Ed25519PrivateKey.generate()
        self.token_key = self.public(self.token_secret, "token-key.pem")

    def issue(self, name: str, authority: trustme.CA) -> tuple[str, str]:
        """Certificate and key, for this machine, of that common name."""
        issued = authority.issue_cert("127.0.0.1", "localhost", common_name=name)
        cert = self.write(f"{name}.pem", b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        return cert, self.write(f"{name}-key.pem", issued.private_key_pem.bytes())

    def write(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def public(self, key: PrivateKey, name: str) -> str:
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return self.write(name, pem)

    def tls(self) -> list[str]:
        return ["--tls-cert", self.cert, "--tls-key", self.key]

    def token_file(self, scope: str = ALL_SCOPES, **claims: Any) -> str:
        token = self.token(scope, **claims)
        return self.write(f"token-{abs(hash(token))}", token.encode())

    def token(self, scope: str = ALL_SCOPES, **claims: Any) -> str:
        return sign(self.token_secret, "EdDSA", scope, **claims)


def sign(
    key: Any, algorithm: str, scope: str = ALL_SCOPES, expires_in_s: float = 600, kid: str | None = None, **claims: Any
) -> str:
    payload = {"sub": "tester", "scope": scope, "exp": time.time() + expires_in_s, **claims}
    given = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(given, key, algorithm, {"kid": kid} if kid else None)


def pem(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
