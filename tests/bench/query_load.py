"""Reads at fixed rates against one replica that follows changes, all on this machine; and, before, point reads against
bare gRPC servers that always give the same answer, with nothing else at work.

A changelog of the enrichment with many users is written, `moneystate serve` loads it, then one process goes on changing
users, one transaction for each batch, while the client in Go (tests/bench/go/load) reads users by chance, on a schedule
that does not wait for answers. `python -m tests.bench query --help`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.engine.keygroup import key_group_of
from moneystate.kafka.client import admin_client
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.log import text_of
from moneystate.serving.client import Client, Target
from moneystate.state.v1 import status_pb2
from tests.bench.echo import AIO, OURS, bare_server
from tests.enrichment import topics
from tests.enrichment.jobs import Rules, enrichment_job
from tests.query.serving import is_at
from tests.replica.states import Entries, State, changes, entries
from tests.waiting import until

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "go"
LOAD_CLIENT = Path(__file__).resolve().parent / "go" / "load"
PREFIX = "query-load-"
CHANGELOG = PREFIX + topics.CHANGELOG
GROUPS, PARTITIONS = 64, 4
BATCH_S = 0.4  # as long as a batch of the job takes
MAX_STREAMS = 100_000  # for the server: all watchers are one caller
LOAD_BATCH = 50_000
START_MS = 1_700_000_000_000
SEEN_IDS = 3
COUNTRIES = ["ES", "PT", "FR", "DE", "IT"]
GET, CALLS = "get", ("get", "batch-get", "list")
DEADLINE_S = 600.0
POLL_S = 0.02  # how precisely it is known when a version can be read


@dataclass(frozen=True)
class Setting:
    users: int
    changes: int  # a second
    rates: list[int]
    seconds: float
    workers: int
    connections: int
    watchers: list[int]
    watch_all: bool
    batch_s: float
    bare: bool
    calls: list[str]


@dataclass(frozen=True)
class Figures:
    """The result of one load. Times are in ms. None: does not apply to the bare server."""

    name: str
    rate: int
    reads: int
    failed: int
    seconds: float
    p50: float
    p99: float
    p999: float
    most: float
    cpu: float  # cores that the server's processes used
    watchers: int
    told: float  # messages per second to watchers
    behind: int | None = None  # records that the replica lagged at the end
    # from a version's last record to the first read of it, at most: median and maximum
    visible: tuple[float, float] | None = None


def user_id(n: int) -> str:
    return f"user-{n:07d}"


def entries_of(n: int, turn: int) -> Entries:
    """A user as the job has many: info, some seen ids, a session. `turn`: how often it has changed; each time its
    country changes, one money id comes, and the oldest goes."""
    seen = tuple((money_id(n, nth), START_MS + nth * 1000) for nth in range(turn, turn + SEEN_IDS))
    country, sessions = COUNTRIES[(n + turn) % len(COUNTRIES)], ((f"session-{n}", START_MS + 86_400_000),)
    return entries(user_id(n).encode(), State(country, str(1950 + n % 50), sessions, seen))


def money_id(n: int, nth: int) -> str:
    return str(uuid.UUID(bytes=blake2b(b"%d/%d" % (n, nth), digest_size=16).digest(), version=4))


class Changer:
    """The job's part: batches of changes in transactions, of one output partition."""

    def __init__(self, servers: str, first_batch: int) -> None:
        settings = {"transactional.id": PREFIX + "job", "linger.ms": 5, "compression.type": "lz4"}
        self.producer = Producer({"bootstrap.servers": servers, **settings})
        self.producer.init_transactions(30)
        self.batch = first_batch
        job = enrichment_job(Rules())
        self.rules = {name: job.rules[name] for name in job.reader_rules}

    def write(self, users: Iterable[tuple[int, int]]) -> None:
        """One batch, of users and their turns. A turn changes what differs from the one before."""
        watermark = START_MS + self.batch * 400
        records = [0] * PARTITIONS
        self.producer.begin_transaction()
        for n, turn in users:
            partition = key_group_of(user_id(n).encode(), GROUPS) % PARTITIONS
            before = entries_of(n, turn - 1) if turn else {}
            for key, value in changes(before, entries_of(n, turn)):
                records[partition] += 1
                self.producer.produce(CHANGELOG, value, key, partition=partition)
            self.producer.poll(0)
        for partition in range(PARTITIONS):
            groups = list(range(partition, GROUPS, PARTITIONS))
            end = {
                "batch": self.batch, "epoch": "query-load", "groups": GROUPS, "keyGroups": groups,
                "records": records[partition], "version": 2, "watermark": watermark, "partitions": PARTITIONS,
                "rules": self.rules,
            }  # fmt: skip
            self.producer.produce(CHANGELOG, json.dumps(end).encode(), b"ejob/0", partition=partition)
        self.producer.commit_transaction(60)
        self.batch += 1


def change(servers: str, users: int, a_second: int, batch_s: float, first_batch: int, stop: Event) -> None:
    """Until told to stop: `a_second` users a second, by chance, in a batch each `batch_s`."""
    changer, chance, turns = Changer(servers, first_batch), random.Random(first_batch), Counter[int]()
    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        chosen = chance.sample(range(users), int(a_second * batch_s))
        turns.update(chosen)
        changer.write((n, turns[n]) for n in chosen)
        due += batch_s


def load(servers: str, users: int) -> int:
    """All users, once. The number of batches that were written."""
    specs = [TopicSpec(CHANGELOG, PARTITIONS, compacted=True)]
    specs += [TopicSpec(PREFIX + name, PARTITIONS) for name in (topics.STREAMS[topics.ENRICHED], "user-events")]
    ensure_topics(admin_client(servers, {}), specs, create=True)
    changer = Changer(servers, 0)
    began = time.monotonic()
    for start in range(0, users, LOAD_BATCH):
        changer.write((n, 0) for n in range(start, min(users, start + LOAD_BATCH)))
        done = min(users, start + LOAD_BATCH)
        print(f"{done:,} of {users:,} users written, {done / (time.monotonic() - began):,.0f}/s", file=sys.stderr)
    return changer.batch


@contextmanager
def served(servers: str, data: Path, workers: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server's process and address, once it listens."""
    command = [sys.executable, "-m", "moneystate.cli.main", "serve", "--service", "enrichment"]
    command += ["--bootstrap-servers", servers]
    command += ["--topic-prefix", PREFIX, "--data", str(data), "--listen", "127.0.0.1:0", "--workers", str(workers)]
    command += ["--max-streams", str(MAX_STREAMS), "--max-streams-per-caller", str(MAX_STREAMS)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            texts = (text_of(line) for line in process.stderr)
            line = next((text for text in texts if text.startswith(("listening on ", "error: "))), "")
            assert line.startswith("listening on "), line
            yield process, line.split()[2]
        finally:
            process.terminate()
            process.wait(60)


def await_caught_up(client: Client, batches: int) -> float:
    """Seconds until the version of the last batch can be read."""
    began = time.monotonic()
    until(lambda: is_at(client, batches - 1), lambda: f"version {batches - 1} cannot be read", DEADLINE_S)
    return time.monotonic() - began


def measure(servers: str, setting: Setting) -> Iterator[Figures]:
    """For each rate; the changes go on all the while."""
    with tempfile.TemporaryDirectory(prefix="query-load-") as folder:
        go = f"{folder}/load"
        subprocess.run([sys.executable, EXAMPLE / "build.py", folder, "--also", LOAD_CLIENT], check=True)
        for transport in (AIO, OURS) if setting.bare else ():
            with bare_server(transport) as (pid, address):
                for rate in setting.rates:
                    yield _at_rate(f"bare {transport}", go, address, pid, rate, setting, GET)
        batches = load(servers, setting.users)
        with served(servers, Path(folder) / "replica", setting.workers) as (process, address):
            client = Client(Target(address), DEADLINE_S)
            seconds = await_caught_up(client, batches)
            print(f"caught up after {seconds:.1f} s, {setting.users / seconds:,.0f} users/s", file=sys.stderr)
            context = multiprocessing.get_context("spawn")
            stop = context.Event()
            arguments = (servers, setting.users, setting.changes, setting.batch_s, batches, stop)
            changer = context.Process(target=change, args=arguments)
            changer.start()
            try:
                await_caught_up(client, batches + 5)
                for call, rate, watchers in product(setting.calls, setting.rates, setting.watchers):
                    with Visible(client) as visible:
                        figures = _at_rate(f"replica, {call}", go, address, process.pid, rate, setting, call, watchers)
                    status = client.call("Status.GetStatus", status_pb2.GetStatusRequest())
                    yield replace(figures, behind=status.lag_records, visible=visible.figures())
            finally:
                stop.set()
                changer.join(60)


def _at_rate(
    name: str, go: str, address: str, pid: int, rate: int, setting: Setting, call: str, watchers: int = 0
) -> Figures:
    command = [go, "-address", address, "-call", call, "-rate", str(rate), "-seconds", str(setting.seconds)]
    command += ["-users", str(setting.users), "-connections", str(setting.connections)]
    command += ["-watchers", str(watchers), f"-watch-all={setting.watch_all}".lower()]
    before, began = _cpu_s(pid), time.monotonic()
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert not told["ended"], f"{told['ended']} watchers were ended"
    if told["failed"]:
        print(f"{name}: {told['failed']:,} reads failed, such as: {told['error']}", file=sys.stderr)
    cpu = (_cpu_s(pid) - before) / (time.monotonic() - began)
    return Figures(
        name, rate, told["reads"], told["failed"], told["seconds"], told["p50_ms"], told["p99_ms"], told["p999_ms"],
        told["max_ms"], cpu, watchers, told["messages"] / told["seconds"],
    )  # fmt: skip


class Visible:
    """How long a version takes from its last record, which is before its commit, to its first being read."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.over = threading.Event()
        self.times_ms: list[float] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Visible:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _run(self) -> None:
        seen = -1
        while not self.over.wait(POLL_S):
            header = self.client.call("Status.GetStatus", status_pb2.GetStatusRequest()).header
            if header.version.batch != seen and seen >= 0:
                self.times_ms.append(time.time() * 1000 - header.written_at_ms)
            seen = header.version.batch

    def figures(self) -> tuple[float, float]:
        return statistics.median(self.times_ms), max(self.times_ms)


def _cpu_s(pid: int) -> float:
    whole = psutil.Process(pid)
    times = [p.cpu_times() for p in [whole, *whole.children(recursive=True)]]
    return sum(t.user + t.system for t in times)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--users", type=int, default=1_000_000)
    p.add_argument("--changes", type=int, default=3_000, help="users changed a second")
    p.add_argument("--rate", type=int, action="append", help="reads a second; may be repeated (1000 to 8000)")
    p.add_argument("--call", choices=CALLS, action="append", help=f"may be repeated ({GET}); others read 20 records")
    p.add_argument("--seconds", type=float, default=15.0, help="of each rate")
    p.add_argument("--workers", type=int, default=1, help="processes that answer")
    p.add_argument("--connections", type=int, default=8)
    p.add_argument("--watchers", type=int, action="append", help="streams beside the reads; may be repeated (0)")
    p.add_argument("--watch-all", action="store_true", help="they watch all users, else one each")
    p.add_argument("--batch-s", type=float, default=BATCH_S, help="seconds between versions")
    p.add_argument("--no-bare", action="store_true", help="without the bare servers")
    a = p.parse_args(arguments)
    rates = a.rate or list(range(1_000, 8_001, 1_000))
    watched = (a.watchers or [0], a.watch_all, a.batch_s, not a.no_bare, a.call or [GET])
    setting = Setting(a.users, a.changes, rates, a.seconds, a.workers, a.connections, *watched)
    table = Table("", "watchers", "told/s", "reads/s", "done/s", "failed", "p50 ms", "p99 ms", "p99.9 ms", "max ms")
    for title in ("server cores", "behind", "visible ms, median", "longest"):
        table.add_column(title)
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        for f in measure(broker.bootstrap_servers, setting):
            times = [f"{ms:,.2f}" for ms in (f.p50, f.p99, f.p999, f.most)]
            done = f"{(f.reads - f.failed) / f.seconds:,.0f}"
            row = [
                f.name,
                f"{f.watchers:,}",
                f"{f.told:,.0f}",
                f"{f.rate:,}",
                done,
                f"{f.failed:,}",
                *times,
                f"{f.cpu:.2f}",
            ]
            row += ["" if f.behind is None else f"{f.behind:,}"]
            table.add_row(*row, *("" if ms is None else f"{ms:,.0f}" for ms in f.visible or (None, None)))
    Console(width=180).print(table)
