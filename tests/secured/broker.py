"""A broker with TLS, SASL (SCRAM and OAUTHBEARER) and ACLs, and the server that OAUTHBEARER's tokens are of.

Its plain listener is for the test itself, which is a super user there. On the others a command is the principal of its
own name and may do what it was granted.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from moneystate.devbroker import DevBroker
from tests.ports import free_ports

SCRAM, OAUTH = "SCRAM-SHA-512", "OAUTHBEARER"
AUDIENCE, KEY_ID = "kafka", "of-the-test"
TOKEN_S = 300
SECRETS = "TEST_CLIENT_SECRET"  # variable of a command's environment
LOGIN = "org.apache.kafka.common.security"


class TokenServer:
    """Client credentials in, a signed token whose subject is the client's id out."""

    def __init__(self, folder: Path, secrets: dict[str, str]) -> None:
        self.secrets = dict(secrets)
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [{**public, "kid": KEY_ID, "alg": "RS256", "use": "sig"}]}))
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def token(self, authorization: str) -> str | None:
        """None for credentials that are wrong."""
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self.secrets.get(client) != secret:
            return None
        now = int(time.time())
        claims = {"sub": client, "iat": now, "exp": now + TOKEN_S, "iss": self.url, "aud": AUDIENCE}
        return jwt.encode(claims, self.key, "RS256", {"kid": KEY_ID})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                token = server.token(self.headers.get("Authorization", ""))
                given = {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_S}
                body = json.dumps({"error": "invalid_client"} if token is None else given).encode()
                self.send_response(401 if token is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


class Secured:
    """`bootstrap_servers`: of the plain listener; `listeners`: by SASL mechanism; `secrets`: by principal."""

    def __init__(self, folder: Path, secrets: dict[str, str]) -> None:
        self.folder = folder
        self.secrets = secrets
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        self.keystore = folder / "broker.pem"
        self.keystore.write_bytes(_pem(authority.issue_cert("127.0.0.1")))
        self.tokens = TokenServer(folder, secrets)
        plain, controller, scram, oauth = free_ports(4)
        self.listeners = {SCRAM: f"127.0.0.1:{scram}", OAUTH: f"127.0.0.1:{oauth}"}
        self.broker = DevBroker(folder / "broker", plain, settings=self._settings(plain, controller))

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def _settings(self, plain: int, controller: int) -> dict[str, str]:
        open_to_clients = (
            f"PLAINTEXT://127.0.0.1:{plain},SCRAM://{self.listeners[SCRAM]},OAUTH://{self.listeners[OAUTH]}"
        )
        settings = {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{open_to_clients},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": open_to_clients,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_SSL,OAUTH:SASL_SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # of the plain listener
            "transaction.max.timeout.ms": "120000",
        }
        for name in ("scram", "oauth"):
            settings[f"listener.name.{name}.ssl.keystore.type"] = "PEM"
            settings[f"listener.name.{name}.ssl.keystore.location"] = str(self.keystore)
        scram, oauth = "listener.name.scram", "listener.name.oauth"
        settings[f"{scram}.sasl.enabled.mechanisms"] = SCRAM
        settings[f"{scram}.scram-sha-512.sasl.jaas.config"] = f"{LOGIN}.scram.ScramLoginModule required;"
        settings[f"{oauth}.sasl.enabled.mechanisms"] = OAUTH
        bearer = f"{LOGIN}.oauthbearer.OAuthBearer"
        settings[f"{oauth}.oauthbearer.sasl.jaas.config"] = f"{bearer}LoginModule required;"
        settings[f"{oauth}.oauthbearer.sasl.server.callback.handler.class"] = f"{bearer}ValidatorCallbackHandler"
        settings[f"{oauth}.sasl.oauthbearer.jwks.endpoint.url"] = self.tokens.jwks.as_uri()
        settings[f"{oauth}.sasl.oauthbearer.expected.audience"] = AUDIENCE
        settings[f"{oauth}.sasl.oauthbearer.expected.issuer"] = self.tokens.url
        return settings

    @contextmanager
    def running(self) -> Iterator[Secured]:
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        jwks = self.tokens.jwks
        os.environ["JAVA_TOOL_OPTIONS"] = f"{allowed}.urls={jwks.as_uri()} {allowed}.files={jwks}"
        try:
            self.broker.start()
        finally:
            del os.environ["JAVA_TOOL_OPTIONS"]
        try:
            self._add_users()
            yield self
        finally:
            self.broker.stop()
            self.tokens.http.shutdown()
            self.tokens.http.server_close()

    def _add_users(self) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        users: list[UserScramCredentialAlteration] = []
        for user, secret in self.secrets.items():
            users.append(UserScramCredentialUpsertion(user, info, secret.encode()))
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for future in admin.alter_user_scram_credentials(users).values():
            future.result()

    def flags(self, mechanism: str, principal: str) -> list[str]:
        """Returns the flags of a command that is to talk to the broker as `principal`."""
        path = self.folder / f"{principal}-{mechanism}.properties"
        secret = self.folder / f"{principal}.secret"
        secret.write_text(self.secrets[principal] + "\n")
        lines = ["security.protocol=sasl_ssl", f"ssl.ca.location={self.ca}", f"sasl.mechanism={mechanism}"]
        if mechanism == SCRAM:
            lines += [f"sasl.username={principal}", f"sasl.password=${{file:{secret}}}"]
        else:
            lines += [
                "sasl.oauthbearer.method=oidc",
                f"sasl.oauthbearer.token.endpoint.url={self.tokens.url}/token",
                f"sasl.oauthbearer.client.id={principal}",
                f"sasl.oauthbearer.client.secret=${{env:{SECRETS}}}",
            ]
        path.write_text("".join(f"{line}\n" for line in lines))
        return ["--bootstrap-servers", self.listeners[mechanism], "--kafka-config-file", str(path)]

    def env(self, principal: str) -> dict[str, str]:
        return {SECRETS: self.secrets[principal]}


def _pem(cert: trustme.LeafCert) -> bytes:
    """Chain and key as Kafka reads them: keys in PKCS 8."""
    key = load_pem_private_key(cert.private_key_pem.bytes(), None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + b"".join(blob.bytes() for blob in cert.cert_chain_pems)
