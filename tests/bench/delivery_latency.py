"""Router and workers together under a steady load: from the append of an event to the request at the receiver.

The router's job, one or more workers, the broker, the producer of the events and the receiver share the machine. Each
event goes to several endpoints. In the end, the audit must find one outcome for each delivery.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded
from tests.bench.backlog import create_topics
from tests.bench.deliver import SPAWN
from tests.bench.delivery import BROKER_TIME
from tests.bench.latency import LOW_LATENCY, PACE_S, figures
from tests.bench.running import ROOT, running_job
from tests.bench.tree import Tree
from tests.job.harness import JobProcess
from tests.ports import free_port
from tests.waiting import until

PARTITIONS: Final = 2
WITHIN_S: Final = 300.0
CONFIG: Final = f"""[delivery]
cloud_events = ["events"]
delivery_partitions = {PARTITIONS}
allow_http = true
"""


@dataclass(frozen=True)
class Load:
    rate: int  # events a second
    warm_s: float
    seconds: float
    endpoints: int
    fan_out: int  # the endpoints of a tenant
    bytes: int  # of an event's body
    workers: int

    @property
    def tenants(self) -> int:
        return self.endpoints // self.fan_out


def _receive(port: int, sent: Any, latencies: Any, count: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        body, now = json.loads(await request.read()), time.time()
        with count.get_lock():
            if count.value < len(sent):
                sent[count.value], latencies[count.value] = body["at"], (now - body["at"]) * 1000
            count.value += 1
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


class Receiver:
    """In a process of its own until the end of the block. `sent`: when the event of each request was appended."""

    def __init__(self, most: int) -> None:
        self.port = free_port()
        self.sent: SynchronizedArray[float] = SPAWN.Array("d", most)
        self.latencies: SynchronizedArray[float] = SPAWN.Array("d", most)
        self.count = SPAWN.Value("q", 0)

    def __enter__(self) -> Receiver:
        self.process = SPAWN.Process(target=_receive, args=(self.port, self.sent, self.latencies, self.count))
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()

    def between(self, begin: float, end: float) -> list[float]:
        """The latencies, in ms, of the events that were appended then."""
        number = min(self.count.value, len(self.sent))
        both = zip(self.sent[:number], self.latencies[:number], strict=True)
        return [latency for sent_s, latency in both if begin <= sent_s < end]


def measure(load: Load, flags: list[str]) -> list[str]:
    """A row of the table."""
    most = round(load.rate * (load.warm_s + load.seconds) * load.fan_out * 1.2)
    with tempfile.TemporaryDirectory(prefix="bench-") as made, ExitStack() as stack:
        folder = Path(made)
        receiver = stack.enter_context(Receiver(most))
        servers = stack.enter_context(DevBroker(folder / "broker", heap="1g")).bootstrap_servers
        _prepare(servers, receiver.port, load)
        (folder / "delivery.toml").write_text(CONFIG)
        flags = [*LOW_LATENCY, "--config", str(folder / "delivery.toml"), *flags]
        router, _ = stack.enter_context(
            running_job(servers, "", folder / "checkpoint", flags, command=("run", "delivery"))
        )
        arguments = ["deliver", "--bootstrap-servers", servers, "--allow-http", "--allow-network", "127.0.0.0/8"]
        processes = [stack.enter_context(JobProcess(arguments, folder)) for _ in range(load.workers)]
        workers = [Tree(one.process.pid) for one in processes]
        _send(servers, load, 0.0)
        until(lambda: receiver.count.value >= load.fan_out, processes[0].err, WITHIN_S)
        begun = time.time()
        sent = 1 + _send(servers, load, load.warm_s + load.seconds)
        until(lambda: receiver.count.value >= sent * load.fan_out, processes[0].err, WITHIN_S)
        all_s = time.time() - begun
        stops = [one.stop() for one in processes]
        assert all(one.code == 0 for one in stops), [one.err for one in stops]
        _audit(servers)
        begin = begun + load.warm_s
        its = figures("", sent, receiver.between(begin, begin + load.seconds), 1.0, router)
        cpu_s = sum(worker.cpu_s for worker in workers)
        return [
            f"{load.rate:,}", f"{sent / all_s * load.fan_out:,.0f}", f"{its.measured:,}", f"{its.p50:,.0f}",
            f"{its.p99:,.0f}", f"{its.most:,.0f}", f"{its.cpu_s / sent * 1e6:,.0f}",
            f"{cpu_s / sent / load.fan_out * 1e6:,.0f}",
        ]  # fmt: skip


def _prepare(servers: str, port: int, load: Load) -> None:
    """Topics, rows and the ends of their first loads. Each tenant has so many endpoints."""
    create_topics(servers, ["events", "endpoints", "subscriptions"], PARTITIONS, BROKER_TIME)
    create_topics(servers, ["deliveries"], PARTITIONS, {"max.message.bytes": str(16 * 2**20)})
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    for number in range(load.endpoints):
        endpoint = {"endpointId": f"e{number}", "owner": "acme", "url": f"http://127.0.0.1:{port}/{number}"}
        scope = [{"tenant": f"t{number % load.tenants}"}]
        subscription = {"subscriptionId": f"s{number}", "endpointId": f"e{number}", "owner": "acme",
                        "types": ["order.*"], "scope": scope}  # fmt: skip
        producer.produce("endpoints", json.dumps(endpoint), f"e{number}")
        producer.produce("subscriptions", json.dumps(subscription), f"s{number}")
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    loaded = Codec(TABLE_LOADED_RECORD).to_json(TableLoaded(0, 0, 0, "bench", 0))
    for table in ("endpoints", "subscriptions"):
        for partition in range(PARTITIONS):
            producer.produce(table, loaded, partition=partition)
    assert producer.flush(WITHIN_S) == 0


def _send(servers: str, load: Load, seconds: float) -> int:
    """At a steady rate, of tenants at random, and at least one. Returns how many."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "enable.idempotence": True})
    chance, run, begun, sent = random.Random(1), uuid.uuid4().hex[:8], time.time(), 0
    note = "x" * max(0, load.bytes - 50)
    while (now := time.time()) < begun + seconds or not sent:
        while sent < max(1, (now - begun) * load.rate):
            tenant = f"t{chance.randrange(load.tenants)}"
            attributes = {"id": f"{run}-{sent}", "source": "bench", "type": "order.placed", "tenant": tenant}
            headers: Any = [("ce_" + name, value.encode()) for name, value in attributes.items()]
            body = json.dumps({"n": sent, "at": time.time(), "note": note})
            producer.produce("events", body, tenant, headers=headers)
            sent += 1
        producer.poll(0)
        time.sleep(PACE_S)
    assert producer.flush(WITHIN_S) == 0
    return sent


def _audit(servers: str) -> None:
    """Raises CalledProcessError if a delivery has none or several outcomes."""
    command = [sys.executable, "-m", "moneystate.cli.main", "delivery", "audit", "--bootstrap-servers", servers]
    subprocess.run([*command, "--from", "2000-01-01T00:00:00Z"], cwd=ROOT, check=True)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    p.add_argument("--rate", type=int, action="append", help="events a second; may be repeated (200)")
    p.add_argument("--warm", type=float, default=30.0, help="seconds of load before the measured ones")
    p.add_argument("--seconds", type=float, default=60.0)
    p.add_argument("--endpoints", type=int, default=1_000)
    p.add_argument("--fan-out", type=int, default=2, help="endpoints that get an event")
    p.add_argument("--bytes", type=int, default=500, help="of an event's body")
    p.add_argument("--workers", type=int, default=1, help="processes that send")
    a = p.parse_args(arguments)
    table = Table(
        "events/s",
        "requests/s",
        "measured",
        "p50 ms",
        "p99 ms",
        "most ms",
        "router's CPU us/event",
        "workers' us/request",
    )
    for rate in a.rate or [200]:
        load = Load(rate, a.warm, a.seconds, a.endpoints, a.fan_out, a.bytes, a.workers)
        table.add_row(*measure(load, a.flags))
    Console(width=130).print(table)
