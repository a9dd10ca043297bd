"""`moneystate demo delivery`: events for six endpoints, of which one takes batches, one fails and recovers, one hangs,
one is gone, and one refuses them until it is mended."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moneystate.devbroker.demo import environment, kill_with_children, read_all, run_job, stage
from moneystate.errors import JobError

TABLES: Final = """
[delivery]
cloud_events = ["orders"]
delivery_partitions = 2
allow_http = true
"""
EVENTS: Final = 6
FAILURES: Final = 2  # of the endpoint that recovers
WAITS: Final = "1s,2s,5m"  # so that a refused message is dead after three attempts in three seconds
UP_S: Final = 60.0
LOOK_S: Final = 0.5
SEE: Final = "run the demo again."
LISTENING: Final = re.compile(r"listening on (\S+) \(")
FIELDS: Final[Mapping[str, dict[str, Any]]] = {  # of endpoints
    "shop": {}, "warehouse": {}, "flaky": {}, "hanging": {"timeoutMs": 1_000}, "gone": {"maxInFlight": 1}, "picky": {},
}  # fmt: skip
BATCH: Final = {"mode": "batch", "maxMessages": EVENTS, "maxWaitMs": 500}


class Receivers:
    """The customers' servers: one process, a path for each endpoint."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.is_mended = False
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receivers = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                status = receivers.answer(self.path.strip("/"))
                self.send_response(status)
                if status == 503:
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def answer(self, name: str) -> int:
        with self._lock:
            self.requests[name] += 1
            number = self.requests[name]
        if name == "hanging":
            self.ended.wait(UP_S)
        if name == "gone":
            return 410
        if name == "picky" and not self.is_mended:
            return 400
        return 503 if name == "flaky" and number <= FAILURES else 204

    @contextmanager
    def running(self) -> Iterator[None]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            self.ended.set()
            self._server.shutdown()
            self._server.server_close()


class Interface:
    """A worker with the interface, as a process."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._log = folder / "deliver.log"
        secrets = folder / "secrets"
        secrets.mkdir()
        self._command = [
            *(sys.executable, "-m", "moneystate.cli.main", "deliver", "--bootstrap-servers", servers),
            *("--listen", "127.0.0.1:0", "--secrets", str(secrets), "--topic-partitions", "1"),
            *("--allow-http", "--allow-network", "127.0.0.0/8", "--retry-waits", WAITS),
        ]
        self._folder = folder
        self._address = ""

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder,
                env=environment(self._folder), start_new_session=True,
            )  # fmt: skip
        try:
            self._address = self._listening(process)
            yield
        finally:
            kill_with_children(process)

    def _listening(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + UP_S
        while process.poll() is None and time.monotonic() < deadline:
            match = LISTENING.search(self._log.read_text(errors="replace"))
            if match:
                return match[1]
            time.sleep(LOOK_S)
        raise JobError("moneystate deliver: expected it to listen, but it does not.", SEE)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(self._address, timeout=UP_S)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, f"/v1/{path}", content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise JobError(f"{method} {path}: expected it to be done, found {text.decode()}", SEE)
        return json.loads(text) if text else None


class Log:
    """Holds what workers have logged, as it comes."""

    def __init__(self, servers: str, out: Console) -> None:
        self._servers = servers
        self._out = out
        self._shown: set[str] = set()
        self._members: dict[str, int] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()  # by endpoint and outcome; each message counts

    def look(self) -> None:
        for came in read_all(self._servers, "delivery-log"):
            its = came.value or {}
            text = json.dumps(its, sort_keys=True)
            if text in self._shown:
                continue
            self._shown.add(text)
            match its["kind"]:
                case "cut":
                    self._members[its["webhookId"]] = len(its["members"])
                case "attempt":
                    self._show(its, str(its["status"] or its["problem"]))
                case "ended":
                    self.outcomes[came.key, its["outcome"]] += self._members.get(its["webhookId"], 1)
                    self._show(its, its["outcome"])

    def _show(self, its: dict[str, Any], told: str) -> None:
        number = self._members.get(its["webhookId"], 1)
        title = f"batch of {number}" if number > 1 else f"message {its['webhookId'][4:10]}"
        self._out.print(Text(f"  {its['endpointId']:<10} {title:<16} {told}"))

    def wait(self, endpoint: str, outcome: str, number: int) -> None:
        """Waits until so many messages of the endpoint have ended so, or a minute has gone by."""
        deadline = time.monotonic() + UP_S
        while self.outcomes[endpoint, outcome] < number and time.monotonic() < deadline:
            time.sleep(LOOK_S)
            self.look()


def demo() -> bool:
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    with stage(err) as (folder, servers), ExitStack() as stack:
        _create_topics(servers)
        receivers, interface = Receivers(), Interface(servers, folder)
        stack.enter_context(receivers.running())
        err.print("moneystate deliver --listen: a worker and the interface ...")
        stack.enter_context(interface.running())
        gone = _subscribe(interface, receivers.url)
        _send(servers)
        err.print(f"moneystate run delivery: routes {EVENTS} events to {len(FIELDS)} endpoints ...")
        run_job("delivery", TABLES, servers, folder, ["--drain"])
        out.print("[bold]Attempts and outcomes[/]")
        log = Log(servers, out)
        for endpoint in ("shop", "warehouse", "flaky"):
            log.wait(endpoint, "DELIVERED", EVENTS)
        status = interface.call("GET", "endpoints/gone/status")["status"]
        interface.call("DELETE", f"subscriptions/{gone}")
        log.wait("gone", "CANCELLED", EVENTS)
        missed = len(interface.call("GET", "endpoints/gone/messages")["messages"])
        log.wait("picky", "DEAD", EVENTS)
        undelivered = len(interface.call("GET", "endpoints/picky/undelivered")["messages"])
        receivers.is_mended = True
        out.print("[bold]picky is mended, and asks for what is dead again[/]")
        interface.call("POST", "endpoints/picky/redeliver", {"dead": True})
        log.wait("picky", "DELIVERED", EVENTS)
        return _show(out, log.outcomes, receivers.requests, status, missed, undelivered)


def _create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    events = NewTopic("orders", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    for future in admin.create_topics([events, NewTopic("deliveries", 2, 1)]).values():
        future.result()


def _subscribe(interface: Interface, url: str) -> str:
    """Each endpoint to all events. Returns the id of the subscription of the endpoint that is gone."""
    made = {}
    for name, fields in FIELDS.items():
        interface.call("PUT", f"owners/acme/secrets/{name}", {})
        endpoint = {"endpointId": name, "owner": "acme", "url": url + name, "secrets": [name], **fields}
        interface.call("POST", "endpoints", endpoint)
        subscription = {
            "endpointId": name,
            "types": ["order.*"],
            "scope": "all",
            **(BATCH if name == "warehouse" else {}),
        }
        made[name] = interface.call("POST", "subscriptions", subscription)["subscriptionId"]
    gone: str = made["gone"]
    return gone


def _send(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "enable.idempotence": True})
    for number in range(EVENTS):
        given = {"id": str(number), "type": "order.placed", "source": "/shop", "tenant": "t1"}
        headers: dict[str, str | bytes | None] = {f"ce_{name}": value for name, value in given.items()}
        producer.produce("orders", json.dumps({"order": number}).encode(), headers=headers)
    producer.flush(UP_S)


def _show(
    out: Console, outcomes: Counter[tuple[str, str]], requests: Counter[str], status: str, missed: int, undelivered: int
) -> bool:
    promises = (
        ("shop works", "one request for each event", requests["shop"] == EVENTS),
        ("warehouse takes batches", "all events in fewer requests",
         outcomes["warehouse", "DELIVERED"] == EVENTS > requests["warehouse"]),
        ("flaky answers 503 at first", "held, then delivered", outcomes["flaky", "DELIVERED"] == EVENTS),
        ("hanging never answers", "the others do not wait", requests["hanging"] > 0),
        ("gone answers 410", "it is disabled; its messages can be fetched",
         (status, outcomes["gone", "CANCELLED"], missed) == ("DISABLED", EVENTS, EVENTS)),
        ("picky answers 400", "dead after three attempts; undelivered ones can be fetched",
         (outcomes["picky", "DEAD"], undelivered, requests["picky"]) == (EVENTS, EVENTS, 4 * EVENTS)),
        ("picky is mended", "what is dead is sent in another run", outcomes["picky", "DELIVERED"] == EVENTS),
    )  # fmt: skip
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Endpoint", "Promise", ""):
        table.add_column(title)
    for endpoint, promise, is_kept in promises:
        table.add_row(endpoint, promise, Text("held", "bold green") if is_kept else Text("BROKEN", "bold white on red"))
    out.print(table)
    held = all(is_kept for _, _, is_kept in promises)
    out.print(f"{len(promises)} promises held." if held else "[bold white on red]A promise was broken.[/]")
    return held
