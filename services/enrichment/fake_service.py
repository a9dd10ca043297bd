"""A session service over real HTTP on loopback, for the demo, tests and measurements.

Its answer for a session is a pure function of the session id and the seed. Whether a call fails (`error_rate`) also
depends on the number of earlier calls for the session, so a retry may succeed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

from moneystate.errors import SetupError

COUNTRIES = ("CA", "ES", "UY", "FI", "IT", "US", "PO", "FR", "DE")
PATH = "/sessions/"
_SCALE = 1 << 64


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Behaviour = Callable[[str, int], HttpAnswer]  # session id, number of earlier calls for it


@dataclass(frozen=True)
class Knowledge:
    """The content of the service, and how reliably it works. Rates are from 0 to 1."""

    seed: int = 1
    not_found_rate: float = 0.0
    error_rate: float = 0.0

    def country(self, session: str) -> str | None:
        """The session's country. None: there is no such session."""
        number = _number(self.seed, "session", session)
        if number < self.not_found_rate * _SCALE:
            return None
        return COUNTRIES[number % len(COUNTRIES)]

    def __call__(self, session: str, before: int) -> HttpAnswer:
        if _number(self.seed, "error", f"{before}/{session}") < self.error_rate * _SCALE:
            return HttpAnswer(500, b'{"error": "made up"}')
        country = self.country(session)
        if country is None:
            return HttpAnswer(404, b'{"error": "no such session"}')
        return HttpAnswer(200, json.dumps({"clientCountryCode": country}).encode())


def _number(seed: int, purpose: str, text: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}/{text}".encode()).digest()[:8], "big")


class FakeSessionService:
    """A context manager that serves until the end of its block. `stop` and `start` simulate an outage."""

    def __init__(
        self,
        behaviour: Behaviour,
        latency_s: float = 0.0,
        port: int = 0,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        path: str = PATH,
    ) -> None:
        self.behaviour = behaviour
        self.latency_s = latency_s
        self.port = port  # 0: any free port; a restart uses the same
        self.token = token  # the bearer token that it requires
        self.tls = tls
        self.path = path  # what comes before the session's id
        self.calls: Counter[str] = Counter()  # by session id
        self.max_concurrent = 0  # the largest number of concurrent calls so far
        self._concurrent = 0
        self._lock = threading.Lock()
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """What `lookup-worker` takes as --url."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Raises SetupError if the port is in use."""
        try:
            self._server = _Server(self)
        except OSError as e:
            raise SetupError(f"--port {self.port}: expected a free port, but {e}.", "choose another.") from None
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Closes all connections and the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.close_connections()
            self._server = None

    def answer(self, session: str) -> HttpAnswer:
        with self._lock:
            before = self.calls[session]
            self.calls[session] += 1
            self._concurrent += 1
            self.max_concurrent = max(self.max_concurrent, self._concurrent)
        try:
            time.sleep(self.latency_s)
            return self.behaviour(session, before)
        finally:
            with self._lock:
                self._concurrent -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    allow_reuse_address = True

    def __init__(self, service: FakeSessionService) -> None:
        self.service = service
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", service.port), _Handler)

    def close_connections(self) -> None:
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors: callers often hang up, and a fault of the service shows as a call without an answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, as real services do
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        tls = self.server.service.tls
        if tls is not None:  # not in the accepting thread, which a slow caller would block
            self.request = tls.wrap_socket(self.request, server_side=True)
        self.server.connections.add(self.request)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.server.connections.discard(self.request)

    def do_GET(self) -> None:
        service = self.server.service
        if service.token is not None and self.headers["Authorization"] != f"Bearer {service.token}":
            self._send(HttpAnswer(401))
        elif not self.path.startswith(service.path):
            self._send(HttpAnswer(400))
        else:
            self._send(service.answer(unquote(self.path.removeprefix(service.path))))

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        pass
