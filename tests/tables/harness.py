"""A table's topic, loaders of it, and what a reader sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from moneystate.cli import main
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import high_watermarks, log_ends
from moneystate.kafka.topics import AS_THE_BROKER
from moneystate.tables.digests import Digests
from moneystate.tables.following import Follower
from moneystate.tables.loading import Choices, Loader, Surroundings
from moneystate.tables.records import RecordMaker
from moneystate.tables.source import RowSource
from moneystate.tables.topic import check_topic, create_topic
from moneystate.tables.writer import TableWriter
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 60.0
PARTITIONS = 2


class Reader:
    """Reads a topic with read_committed, by plain means."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._admin = admin_client(bootstrap_servers, {})
        self._partitions = [(topic, p) for p in range(partitions)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False,
                "isolation.level": "read_committed", "auto.offset.reset": "error", "fetch.wait.max.ms": 10,
            }
        )  # fmt: skip
        self._consumer.assign([TopicPartition(*tp, 0) for tp in self._partitions])
        self.rows: dict[str, Any] = {}  # by key
        self.loaded: list[tuple[int, dict[str, Any]]] = []  # TableLoaded, with their partitions
        self.written = 0  # rows and tombstones

    def read(self, waits: bool = True) -> dict[str, Any]:
        """The rows, up to the present end. `waits`: for transactions that are still open."""
        ends = (high_watermarks if waits else log_ends)(self._admin, self._partitions)

        def at_end() -> bool:
            for message in self._consumer.consume(1_000, 0.01):
                assert message.error() is None, message.error()
                self._take(message)
            return all(p.offset >= ends[p.topic, p.partition] for p in self._positions(ends))

        until(at_end, lambda: f"{ends}, read up to {self._positions(ends)}", WITHIN_S)
        return self.rows

    def _positions(self, ends: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
        return self._consumer.position([TopicPartition(*tp) for tp, end in ends.items() if end])

    def _take(self, message: Any) -> None:
        value: Any = None if message.value() is None else json.loads(message.value())
        if message.key() is None:
            assert value.pop("type") == "TableLoaded"
            self.loaded.append((message.partition(), value))
            return
        self.written += 1
        if value is None:
            self.rows.pop(message.key().decode(), None)
        else:
            self.rows[message.key().decode()] = value

    def close(self) -> None:
        self._consumer.close()


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Site:
    """The surroundings of one test."""

    def __init__(self, bootstrap_servers: str, topic: str, folder: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.folder = folder
        self.admin = admin_client(bootstrap_servers, {})
        self._readers: list[Reader] = []
        self._loaders: list[Loader] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def create(self, partitions: int = PARTITIONS) -> Reader:
        create_topic(self.admin, self.topic, partitions, AS_THE_BROKER)
        return self.reader(partitions)

    def reader(self, partitions: int = PARTITIONS) -> Reader:
        self._readers.append(Reader(self.bootstrap_servers, self.topic, partitions))
        return self._readers[-1]

    def loader(
        self, source: RowSource, choices: Choices | None = None, home: str = "home", key: tuple[str, ...] = ("sku",)
    ) -> Loader:
        follower = Follower(self.bootstrap_servers, {}, self.topic, Digests(self.folder / home / "digests"))
        make = RecordMaker(key, check_topic(self.admin, self.topic))
        writer = TableWriter(self.bootstrap_servers, {}, self.topic)
        around = Surroundings(lambda: time.time_ns() // 1_000_000, lambda: None, lambda *_: None)
        self._loaders.append(
            Loader(source, make, follower, writer, self.folder / home / "pending", choices or Choices(), around)
        )
        return self._loaders[-1]

    def arguments(self, *more: str) -> list[str]:
        flags = ("--topic", self.topic, "--digests", str(self.folder / "home"))
        return ["table", "load", "--bootstrap-servers", self.bootstrap_servers, *flags, *more]

    def run(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *more: str) -> Ran:
        """The command in this process."""
        monkeypatch.setattr("sys.argv", ["moneystate", *self.arguments(*more)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main.main()
        assert isinstance(end.value.code, int)
        return Ran(end.value.code, *capfd.readouterr())

    def start(self, *more: str, **environ: str) -> subprocess.Popen[bytes]:
        """The command as a process of its own."""
        with (self.folder / f"log{len(self._processes)}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "moneystate.cli.main", *self.arguments(*more)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
            )  # fmt: skip
        self._processes.append(process)
        return process

    def log(self) -> str:
        return "\n".join(file.read_text(errors="replace")[-3_000:] for file in sorted(self.folder.glob("log*")))

    def until(self, holds: Any, expected: str) -> Any:
        return until(holds, lambda: f"{expected}\n{self.log()}", WITHIN_S)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for loader in self._loaders:
            loader.close()
        for reader in self._readers:
            reader.close()
