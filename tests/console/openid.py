"""A small OpenID provider over real HTTP on loopback, with switches for what goes wrong."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm

CLIENT, SECRET = "console", "s3cret"
NO_ICON = '<link rel="icon" href="data:,">'
ALL_SCOPES = "state.read state.read.personal state.admin"


class Key:
    """That signs tokens."""

    def __init__(self, kid: str, key: Any, algorithm: str) -> None:
        self.kid = kid
        self.key = key
        self.algorithm = algorithm

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, self.algorithm, {"kid": self.kid})

    def public(self) -> dict[str, Any]:
        make = OKPAlgorithm if self.algorithm == "EdDSA" else RSAAlgorithm
        return {**make.to_jwk(self.key.public_key(), as_dict=True), "kid": self.kid, "use": "sig"}


def ed_key(kid: str) -> Key:
    return Key(kid, ed25519.Ed25519PrivateKey.generate(), "EdDSA")


def rsa_key(kid: str) -> Key:
    return Key(kid, rsa.generate_private_key(65_537, 2_048), "RS256")


@dataclass
class Given:
    """What a code stands for."""

    redirect: str
    challenge: str
    nonce: str


@dataclass
class State:
    """`claims`: replace those of the ID token, None: leaves one out. `configuration`: the same of what the provider
    says of itself. `paths`: what it was asked."""

    issuer: str = ""
    key: Key = field(default_factory=lambda: ed_key("one"))
    published: list[Key] = field(default_factory=list)
    scope: str = ALL_SCOPES
    life_s: float = 600
    claims: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    codes: dict[str, Given] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def configured(self) -> dict[str, Any]:
        its = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/leave",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.configuration,
        }
        return {name: value for name, value in its.items() if value is not None}

    def keys(self) -> dict[str, Any]:
        return {"keys": [key.public() for key in self.published or [self.key]]}

    def sent_back(self, given: dict[str, str]) -> str:
        """Where a browser goes after its login."""
        assert (given["client_id"], given["response_type"]) == (CLIENT, "code")
        assert given["code_challenge_method"] == "S256"
        assert "openid" in given["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = Given(given["redirect_uri"], given["code_challenge"], given["nonce"])
        answer = {"error": self.error} if self.error else {"code": code}
        return f"{given['redirect_uri']}?{urlencode({**answer, 'state': given['state'], 'iss': self.issuer})}"

    def tokens(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """None: the provider refuses."""
        its = self.codes.pop(form.get("code", ""), None)  # each counts once
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        is_client = authorization == f"Basic {basic}" or (form.get("client_id"), form.get("client_secret")) == (
            CLIENT,
            SECRET,
        )
        if its is None or not is_client or form.get("redirect_uri") != its.redirect:
            return None
        if base64.urlsafe_b64encode(verifier).decode().rstrip("=") != its.challenge:
            return None
        now = int(time.time())
        access = self.key.sign({"iss": self.issuer, "sub": "ann", "scope": self.scope, "exp": now + self.life_s})
        claims = {"iss": self.issuer, "sub": "ann", "aud": CLIENT, "iat": now, "exp": now + 600, "nonce": its.nonce}
        changed = {**claims, **self.claims}
        identity = self.key.sign({name: value for name, value in changed.items() if value is not None})
        return {"access_token": access, "id_token": identity, "token_type": "Bearer", "expires_in": self.life_s}


class OpenId:
    """`with OpenId() as provider:` serves until the end of the block. A browser takes it for another site than a
    console on 127.0.0.1."""

    def __init__(self) -> None:
        self.state = State()
        handler = type("Handler", (_Handler,), {"state": self.state})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.state.issuer = f"http://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def write_keys(self, path: Path) -> str:
        path.write_text(json.dumps(self.state.keys()))
        return str(path)

    def visited(self, url: str) -> dict[str, str]:
        """What a browser that goes to the URL is sent back with."""
        return dict(parse_qsl(urlsplit(self.state.sent_back(dict(parse_qsl(urlsplit(url).query)))).query))


class _Handler(BaseHTTPRequestHandler):
    state: State

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.state.paths.append(parts.path)
        if parts.path == "/authorize":
            self._show(f'<title>Log in</title>{NO_ICON}<a href="/allow?{html.escape(parts.query)}">Allow</a>')
        elif parts.path == "/allow":
            self._answer(302, {}, Location=self.state.sent_back(dict(parse_qsl(parts.query))))
        elif parts.path == "/.well-known/openid-configuration":
            self._answer(200, self.state.configured())
        elif parts.path == "/keys":
            self._answer(200, self.state.keys())
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        self.state.paths.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        tokens = self.state.tokens(dict(parse_qsl(body)), self.headers.get("Authorization", ""))
        if tokens is None:
            self._answer(400, {"error": "invalid_grant"})
        else:
            self._answer(200, tokens)

    def _answer(self, status: int, value: dict[str, Any], **headers: str) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})

    def _show(self, page: str) -> None:
        self._send(200, page.encode(), {"Content-Type": "text/html"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
