"""`moneystate ingest` as a process, its clients, and what it wrote."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, TopicPartition

from moneystate.kafka.client import admin_client, headers_of
from moneystate.kafka.offsets import log_ends, topic_states
from tests.waiting import until

WITHIN_S = 60.0
LISTENING = re.compile(r"listening on (\S+):(\d+) \(")
ORDERS = "examples.orders.orders:service"
JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}


def payment(number: int, **changes: Any) -> dict[str, Any]:
    """A record of the topic `payments` of the example service."""
    members = {
        "paymentId": f"p{number}", "orderId": f"o{number % 50}", "cents": number, "takenAt": "2026-01-31T10:00:00Z",
    }  # fmt: skip
    return {**members, **changes}


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any  # parsed JSON


class Client:
    """One connection."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None, token: str = "") -> None:
        if context is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
        else:
            self.connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=WITHIN_S, context=context)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def post(self, topic: str, body: Any, **headers: str) -> Reply:
        """`body`: bytes, or what is sent as JSON. A header's name has `_` for `-`."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", f"/v1/{topic}", content, {**JSON, **self.headers, **given})

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        self.connection.request(method, path, body, dict(headers))
        answer = self.connection.getresponse()
        content = answer.read()
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return Reply(
            answer.status,
            {name.lower(): value for name, value in answer.headers.items()},
            json.loads(content) if is_json else content.decode(),
        )


class Server:
    """The process, until the end of the block."""

    def __init__(
        self, servers: str, prefix: str, *flags: str, service: str = ORDERS, listen: str = "127.0.0.1:0"
    ) -> None:
        self.command = [sys.executable, "-m", "moneystate.cli.main", "ingest", service]
        self.command += ["--bootstrap-servers", servers, "--topic-prefix", prefix, "--listen", listen, *flags]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the process)
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        before = len(self.output())
        self.process = subprocess.Popen(
            self.command, stdout=self.log, stderr=self.log, env={**os.environ, "PYTHONUNBUFFERED": "1"}, process_group=0
        )
        self.port = until(lambda: self._listening(before), self.output, WITHIN_S)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WITHIN_S)
        self.log.close()

    def _listening(self, before: int) -> int:
        assert self.process.poll() is None, self.output()
        match = LISTENING.search(self.output()[before:])
        return int(match[2]) if match else 0

    def output(self) -> str:
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode()

    def client(self, context: ssl.SSLContext | None = None, token: str = "") -> Client:
        return Client(self.port, context, token)

    def terminate(self) -> int:
        """Ends it by SIGTERM. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WITHIN_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WITHIN_S)


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    time_ms: int
    headers: Mapping[str, bytes | None]


def written(servers: str, topic: str) -> list[Record]:
    """All committed records of a topic, with its prefix."""
    admin = admin_client(servers, {})
    partitions = [(topic, p) for p in topic_states(admin, [topic])[topic].partitions]
    ends = {p: end for (_, p), end in log_ends(admin, partitions).items()}
    consumer = Consumer(
        {
            "bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
        }
    )  # fmt: skip
    records: list[Record] = []
    done: set[int] = set()
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in ends])
        while len(done) < len(ends):
            for message in consumer.consume(1_000, 0.5):
                place = message.partition()
                assert place is not None
                if message.error() is not None:
                    done.add(place)
                else:
                    records.append(_record(message))
    finally:
        consumer.close()
    return records


def _record(message: Any) -> Record:
    return Record(
        message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1],
        dict(headers_of(message)),
    )  # fmt: skip
