"""Real jobs of three services, their query servers, and a console beside them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, urlencode

import grpc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moneystate.serving.client import Client, Target
from moneystate.state.v1 import state_pb2 as s
from moneystate.state.v1 import status_pb2
from tests.job.harness import JobProcess
from tests.ports import free_ports
from tests.waiting import until

LISTENING: Final = re.compile(r"listening on (?:https?://)?([0-9.]+:\d+)")
NOTES: Final = "tests.console.notes:service"
REFERENCES: Final = {"notes": NOTES, "rollups": "rollups", "stock": "services.stock.service:stock"}
WITHIN_S: Final = 60.0
START_MS: Final = 1_795_000_000_000
MINUTE_MS: Final = 60_000
HOSTILE: Final = {
    "html": "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">",
    "reversed": "abc\u202egpj.exe",
    "quotes": "\" onmouseover=\"document.title='taken'\" '",
    "template": "{{ 7 * 7 }}${7*7}",
    "long": "long " * 180_000,
}
WIDE: Final = {f"field-{n}": n for n in range(10_000)}
ROLLUPS: Final = """
[rollups]
zone = "Europe/Berlin"
interval = "1m"
metrics = [{ name = "temp", unit = "°C", digits = 1 }]
"""


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    def has(self, *texts: str) -> bool:
        return all(text in self.text for text in texts)


class World:
    """Until the end of the block. `flags`: of the console; `server_flags`: of the query servers."""

    def __init__(
        self, servers: str, folder: Path, *flags: str, services: Sequence[str] = ("notes", "rollups", "stock"),
        server_flags: Sequence[str] = (), job_flags: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.services = services
        self.job_flags = job_flags
        self.server_flags = server_flags
        self.servers = servers
        self.folder = folder
        self.minute = 100
        self.flags = flags
        self.stack = ExitStack()
        self.producer = Producer(
            {"bootstrap.servers": servers, "log_level": 0, "message.max.bytes": 1_000_000, "enable.idempotence": True}
        )

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stack.close()
            raise
        return self

    def topics(self) -> None:
        topics = [NewTopic(name, 2, 1) for name in ("notes", "readings", "stock-commands")]
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        for future in admin.create_topics(topics).values():
            future.result()

    def _start(self) -> None:
        (self.folder / "services.toml").write_text(ROLLUPS)
        self.topics()
        self.first_notes()
        self.first_readings()
        self.first_stock()
        self.jobs = [self._run(name) for name in self.services]
        ports = free_ports(len(self.services))  # known before, so that all start at once
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(self.services, ports, strict=True)}
        serving = [self._serve(name, listen=address) for name, address in self.addresses.items()]
        self.console = self.listening(self.run_console())
        for process in serving:
            self.listening(process)
        if not self.server_flags:
            for name in self.services:
                self.client(name)
            until(lambda: self.notes_known() >= len(HOSTILE) + 2, lambda: self.jobs[0].err(), WITHIN_S)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stack.close()

    # What is sent

    def send(self, topic: str, key: str, record: Any) -> None:
        value = record if isinstance(record, bytes) else json.dumps(record).encode()
        self.producer.produce(topic, value, key, partition=sum(key.encode()) % 2)

    def note(self, id: str, text: str, minute: int, level: str = "LOW", more: Any = None) -> None:
        noted_at = START_MS + minute * MINUTE_MS
        about = {"author": "Ann", "text": text, "level": level, "more": more}
        self.send("notes", id, {"noteId": id, "notedAt": noted_at, **about})

    def first_notes(self) -> None:
        for name, text in HOSTILE.items():
            self.note(name, text, 1, "HIGH")
        self.note("wide", "wide", 1, more=WIDE)
        self.note("plain", "first", 1)
        self.note("empty", "", 2)
        self.send("notes", "broken", b'{"noteId": "broken", \xff')
        self.beat(10)

    def later(self) -> int:
        """A minute after all before, also of other tests."""
        self.minute += 10
        return self.minute

    def beat(self, minute: int) -> None:
        """A note in each partition, so that time goes on."""
        for id in ("beat-0", "beat-1"):
            self.note(id, f"beat {minute}", minute)
        self.producer.flush(WITHIN_S)

    def first_readings(self) -> None:
        now = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
        for device in ("d0", "d1"):
            for ago in range(180, 1, -1):
                if not 90 <= ago < 120:
                    measured_at = now - ago * MINUTE_MS
                    self.send(
                        "readings", device, {"deviceId": device, "at": measured_at, "metrics": {"temp": 20 + ago % 7}}
                    )
        self.producer.flush(WITHIN_S)

    def first_stock(self) -> None:
        """One command: without a record, a job writes its first batch after half a minute only."""
        about = {"commandId": "first", "pool": "first", "time": time.time_ns() // 1_000_000}
        self.send("stock-commands", "first", {"type": "Adjust", **about, "sku": "a", "quantity": 1})
        self.producer.flush(WITHIN_S)

    # What runs

    def _run(self, name: str) -> JobProcess:
        checkpoint = str(self.folder / f"checkpoint-{name}")
        arguments = [
            "run",
            REFERENCES[name],
            "--local",
            "--bootstrap-servers",
            self.servers,
            "--checkpoint",
            checkpoint,
        ]
        return self._started([*arguments, *self._more(name), "--max-record-bytes", "1000000", *self.job_flags])

    def _serve(self, name: str, folder: str = "replica", listen: str = "127.0.0.1:0") -> JobProcess:
        data = str(self.folder / f"{folder}-{name}")
        arguments = ["serve", "--service", REFERENCES[name], "--bootstrap-servers", self.servers, "--data", data]
        return self._started([*arguments, "--listen", listen, *self._more(name), *self.server_flags])

    def _more(self, name: str) -> list[str]:
        return ["--config", str(self.folder / "services.toml")] if name == "rollups" else []

    def run_console(self) -> JobProcess:
        states = [word for address in self.addresses.values() for word in ("--state", address)]
        arguments = ["console", "--bootstrap-servers", self.servers, "--listen", "127.0.0.1:0", *states]
        self.console_process = self._started([*arguments, "--show-service", NOTES, *self.flags])
        return self.console_process

    def _started(self, arguments: list[str]) -> JobProcess:
        return self.stack.enter_context(JobProcess(arguments, self.folder))

    def listening(self, process: JobProcess) -> str:
        addresses = until(lambda: LISTENING.findall(process.out() + process.err()), process.err, WITHIN_S)
        return str(addresses[0])

    # What is asked

    def client(self, name: str) -> Client:
        """Returns the client of a query server, once it has a version."""
        client = Client(Target(self.addresses[name]), WITHIN_S)
        until(lambda: _is_up(client), lambda: f"{name} has no version", WITHIN_S)
        return client

    def notes_known(self) -> int:
        with self.client("notes") as client:
            return len(client.call("State.List", s.ListRequest(state="note")).records)

    def get(self, path: str, *, cookies: str = "", host: str = "", **query: Any) -> Reply:
        full = f"{path}?{urlencode(query)}" if query else path
        return self.request("GET", full, None, {"Cookie": cookies} if cookies else {}, host)

    def shown(self, path: str, *texts: str) -> Reply:
        """The page, once it has these texts."""
        return self.shown_to("", path, *texts)

    def shown_to(self, cookies: str, path: str, *texts: str) -> Reply:
        until(lambda: self.get(path, cookies=cookies).has(*texts), lambda: self.get(path).text, WITHIN_S)
        return self.get(path, cookies=cookies)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Reply:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, urlencode(fields).encode(), {**kind, **given})

    def request(self, method: str, path: str, body: bytes | None, headers: dict[str, str], host: str = "") -> Reply:
        connection = HTTPConnection(self.console, timeout=WITHIN_S)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in {"Host": host or self.console, **headers}.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body or b"")))
            connection.endheaders(body)
            answer = connection.getresponse()
            shown = {name.lower(): value for name, value in answer.getheaders()}
            shown["set-cookie"] = "\n".join(answer.headers.get_all("set-cookie") or [])
            return Reply(answer.status, shown, answer.read().decode())
        finally:
            connection.close()


def _is_up(client: Client) -> bool:
    try:
        answer = client.call("Status.GetStatus", status_pb2.GetStatusRequest())
    except grpc.RpcError:
        return False
    return bool(answer.caught_up and answer.header.HasField("version"))


def path_of(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


def rows_of(html: str) -> Sequence[Sequence[str]]:
    """The texts of the cells of all tables."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[re.sub(r"<[^>]+>", "", one).strip() for one in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]
            for row in rows]  # fmt: skip
