"""A schema registry over real HTTP on loopback: the calls that the client makes, and switches for what goes wrong."""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

from moneystate.records.schema_set import SchemaSet
from moneystate.registry.client import RegistryClient
from moneystate.registry.confluent import ConfluentFormat, subject_of
from tests.formats.values import SET

SUBJECT = subject_of("wallet-events")


@dataclass
class State:
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, dict[str, Any]] = field(default_factory=dict)  # by path below /subjects/
    deleted: set[str] = field(default_factory=set)  # of `versions`: told only to who asks for deleted ones, too
    requests: list[str] = field(default_factory=list)
    fail_next: list[tuple[int, bytes]] = field(default_factory=list)  # status and body of the next answers
    credentials: str | None = None  # "user:password"
    lock: threading.Lock = field(default_factory=threading.Lock)


class RegistryServer:
    """`with RegistryServer() as server:` serves until the end of the block or `stop()`."""

    def __init__(self) -> None:
        self.state = State()
        handler = type("Handler", (_Handler,), {"state": self.state})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def add(self, schema: object, **more: Any) -> int:
        """Registers a schema (an object, or text as it is) and returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        new_id = 1000 + len(self.state.schemas)
        self.state.schemas[new_id] = {"schema": text, **more}
        return new_id

    def add_version(self, path: str, schema: object, *references: str, **more: Any) -> None:
        """The version at `path`, such as `customer-value/versions/1`, with references to other paths."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.state.versions[path] = {"schema": text, "references": referring(*references), **more}


def referring(*paths: str) -> list[dict[str, Any]]:
    """As a registry lists the references of a schema."""
    parts = [path.partition("/versions/") for path in paths]
    return [{"name": f"r{n}", "subject": unquote(s), "version": int(v)} for n, (s, _, v) in enumerate(parts)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, as real registries do it
    state: State

    def do_GET(self) -> None:
        if self._refused():
            return
        if self.path.startswith("/subjects/"):
            self._answer_version()
            return
        id_text = self.path.removeprefix("/schemas/ids/")
        schema = self.state.schemas.get(int(id_text)) if id_text.isdigit() else None
        if schema is None:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})
        else:
            self._answer(200, schema)

    def _answer_version(self) -> None:
        path, _, query = self.path.removeprefix("/subjects/").partition("?")
        version = self.state.versions.get(path)
        if version is None or (path in self.state.deleted and query != "deleted=true"):
            self._answer(404, {"error_code": 40402, "message": "Version not found"})
        else:
            self._answer(200, version)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        with self.state.lock:
            entry = {"schema": body["schema"], "subject": unquote(self.path.split("/")[2])}
            ids = [known for known, schema in self.state.schemas.items() if schema == entry]
            new_id = ids[0] if ids else 1000 + len(self.state.schemas)
            self.state.schemas[new_id] = entry
        self._answer(200, {"id": new_id})

    def _refused(self) -> bool:
        self.state.requests.append(f"{self.command} {self.path}")
        if self.state.fail_next:
            self._send(*self.state.fail_next.pop(0))
            return True
        wanted = self.state.credentials
        if wanted and self.headers["Authorization"] != "Basic " + base64.b64encode(wanted.encode()).decode():
            self._answer(401, {"error_code": 40101, "message": "Unauthorized"})
            return True
        return False

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, json.dumps(body).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def made(server: RegistryServer, waits: list[float] | None = None, schemas: SchemaSet = SET) -> ConfluentFormat:
    slept = [] if waits is None else waits
    return ConfluentFormat(schemas, RegistryClient(server.url, sleep=slept.append), SUBJECT)
