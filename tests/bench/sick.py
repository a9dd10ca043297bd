"""Healthy endpoints beside sick ones: how long deliveries to healthy endpoints take while 1 % of the endpoints hang and
1 % answer 500, beside runs in which all are healthy, by turns.

Deliveries are appended at a steady rate, to each endpoint in turn. A latency is from there to the request at the
receiver, which is a process of its own on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from moneystate.deliver.records import RowPlace
from moneystate.devbroker import DevBroker
from moneystate.kafka.partitions import partition_of_key
from tests.bench.deliver import PARTITIONS, SPAWN, WITHIN_S
from tests.deliver.made import delivery, stored
from tests.job.harness import JobProcess
from tests.ports import free_port
from tests.waiting import until

WANTED: Final = 1.1  # p99 beside sick ones to p99 of the undisturbed run
WARM_S: Final = 5.0  # not counted: connections and breakers
SHARE: Final = 100  # one endpoint of so many hangs, and another one answers 500
HANG_S: Final = 600.0
TICK_S: Final = 0.01


@dataclass(frozen=True)
class Load:
    endpoints: int
    per_s: int
    seconds: float
    timeout_ms: int


def _receive(port: int, latencies: Any, count: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        kind = request.path.split("/")[1]
        if kind == "hang":
            await asyncio.sleep(HANG_S)
        if kind == "ok":
            with count.get_lock():
                latencies[count.value] = time.time() - body["at"]
                count.value += 1
        return web.Response(status=500 if kind == "fail" else 200)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None, shutdown_timeout=0.0)


def measure(load: Load, is_sick: bool) -> list[float]:
    """Latencies of healthy endpoints, in seconds."""
    most = round(load.per_s * (load.seconds + WARM_S)) + load.endpoints
    latencies: SynchronizedArray[float] = SPAWN.Array("d", most)
    count, port = SPAWN.Value("q", 0), free_port()
    receiver = SPAWN.Process(target=_receive, args=(port, latencies, count))
    receiver.start()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as folder,
            DevBroker(Path(folder) / "broker", heap="1g") as broker,
        ):
            kinds = [_kind(number, is_sick) for number in range(load.endpoints)]
            _prepare(broker.bootstrap_servers, port, kinds, load)
            arguments = ["deliver", "--bootstrap-servers", broker.bootstrap_servers, "--allow-http", "--allow-network",
                         "127.0.0.0/8"]  # fmt: skip
            with JobProcess(arguments, Path(folder)) as worker:
                until(lambda: "partitions" in worker.err(), worker.err, WITHIN_S)
                sent = _send(broker.bootstrap_servers, load, kinds)
                until(lambda: count.value >= sent, worker.err, WITHIN_S)
        skipped = round(WARM_S * load.per_s)
        return sorted(latencies[skipped : count.value])
    finally:
        receiver.kill()
        receiver.join()


def _kind(number: int, is_sick: bool) -> str:
    return {0: "hang", 1: "fail"}.get(number % SHARE, "ok") if is_sick else "ok"


def _prepare(servers: str, port: int, kinds: list[str], load: Load) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = [NewTopic("deliveries", PARTITIONS, 1), NewTopic("endpoints", 1, 1), NewTopic("subscriptions", 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    for number, kind in enumerate(kinds):
        row = {"endpointId": f"e{number}", "owner": "acme", "url": f"http://127.0.0.1:{port}/{kind}/{number}",
               "timeoutMs": load.timeout_ms}  # fmt: skip
        its = {"subscriptionId": f"s{number}", "endpointId": f"e{number}", "owner": "acme", "types": ["*"]}
        producer.produce("endpoints", json.dumps(row).encode(), f"e{number}".encode())
        producer.produce("subscriptions", json.dumps(its).encode(), f"s{number}".encode())
    assert producer.flush(WITHIN_S) == 0


def _send(servers: str, load: Load, kinds: list[str]) -> int:
    """At a steady rate. Returns how many are for healthy endpoints."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "enable.idempotence": True})
    begun, sent, healthy = time.monotonic(), 0, 0
    while (passed := time.monotonic() - begun) < load.seconds + WARM_S:
        due = round(passed * load.per_s)
        for number in range(sent, due):
            healthy += kinds[number % load.endpoints] == "ok"
            _produce(producer, number, load)
        sent = due
        producer.poll(0)
        time.sleep(TICK_S)
    assert producer.flush(WITHIN_S) == 0
    return healthy


def _produce(producer: Producer, number: int, load: Load) -> None:
    name = f"e{number % load.endpoints}"
    body = json.dumps({"at": time.time(), "note": "x" * 460}).encode()
    one = delivery(
        delivery_id=f"msg_{number}", endpoint_id=name, subscription_id=f"s{number % load.endpoints}", body=body,
        endpoint_row=RowPlace(0, 0), subscription_row=RowPlace(0, 0), sequence=f"{number:012d}",
        time_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip
    producer.produce("deliveries", stored(one), name.encode(), partition_of_key(name.encode(), PARTITIONS))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=400)
    parser.add_argument("--per-s", type=int, default=400, help="deliveries a second, of all endpoints")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--timeout-ms", type=int, default=15_000, help="of each endpoint")
    parser.add_argument("--pairs", type=int, default=2)
    a = parser.parse_args(arguments)
    load = Load(a.endpoints, a.per_s, a.seconds, a.timeout_ms)
    table = Table("pair", "endpoints", "p50 ms", "p99 ms", "most ms")
    ratios = []
    for pair in range(1, a.pairs + 1):
        runs = {}
        for is_sick in (False, True) if pair % 2 else (True, False):
            runs[is_sick] = its = measure(load, is_sick)
            name = "1 % hang, 1 % answer 500" if is_sick else "all healthy"
            table.add_row(str(pair), name, *(f"{1e3 * _at(its, share):.1f}" for share in (0.5, 0.99, 1.0)))
        ratios.append(_at(runs[True], 0.99) / _at(runs[False], 0.99))
    Console(width=100).print(table)
    told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"p99 of healthy endpoints beside sick ones / undisturbed: {told} (wanted: at most {WANTED})")


def _at(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(share * len(latencies)))]
