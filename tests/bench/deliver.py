"""Workers of deliveries beside a bare aiohttp client that sends the same bodies to the same receiver.

The worker reads, signs, sends and commits its log; the client only sends. The receiver is a process of its own on the
same machine. Rates are from the first request to the last one; processor time is that of the sender.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import psutil
from aiohttp import web
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from moneystate.deliver.records import RowPlace
from moneystate.devbroker import DevBroker
from moneystate.kafka.partitions import partition_of_key
from tests.deliver.made import delivery, stored
from tests.job.harness import JobProcess
from tests.ports import free_port
from tests.waiting import until

WANTED: Final = 3_000  # signed requests a second
PARTITIONS: Final = 2
GROUP: Final = "deliver"  # of the workers, by default
WITHIN_S: Final = 600.0
SECRET: Final = "whsec_" + base64.b64encode(b"k" * 32).decode()
ENVELOPE: Final = b'"specversion":'
SPAWN: Final = multiprocessing.get_context("spawn")
BODY: Final = json.dumps({"orderId": 17, "note": "x" * 460}).encode()


class Measured(NamedTuple):
    rate: float
    cpu_us: float


def _receive(port: int, count: Any, first: Any, last: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        now = time.time()
        with count.get_lock():
            count.value += max(1, body.count(ENVELOPE))  # messages
            first.value = first.value or now
            last.value = now
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


class Receiver:
    """In a process of its own until the end of the block."""

    def __enter__(self) -> Receiver:
        self.port = free_port()
        self.count: Synchronized[int] = SPAWN.Value("q", 0)
        self.first: Synchronized[float] = SPAWN.Value("d", 0.0)
        self.last: Synchronized[float] = SPAWN.Value("d", 0.0)
        self.process = SPAWN.Process(target=_receive, args=(self.port, self.count, self.first, self.last))
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()

    @property
    def rate(self) -> float:
        return self.count.value / max(self.last.value - self.first.value, 0.001)


def measure_client(requests: int, in_flight: int) -> Measured:
    with Receiver() as receiver:
        begun = psutil.Process().cpu_times()
        asyncio.run(_send(f"http://127.0.0.1:{receiver.port}/", requests, in_flight))
        ended = psutil.Process().cpu_times()
        return Measured(receiver.rate, (ended.user + ended.system - begun.user - begun.system) / requests * 1e6)


async def _send(url: str, requests: int, in_flight: int) -> None:
    numbers = iter(range(requests))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:
        await _answers(session, url)

        async def line() -> None:
            for _ in numbers:
                async with session.post(url, data=BODY) as response:
                    await response.read()

        await asyncio.gather(*(line() for _ in range(in_flight)))


async def _answers(session: aiohttp.ClientSession, url: str) -> None:
    """Waits until the receiver is up."""
    while True:
        try:
            async with session.get(url):
                return
        except aiohttp.ClientError:
            await asyncio.sleep(0.05)


@contextmanager
def _folder_of_secrets(folder: Path) -> Iterator[Path]:
    place = folder / "secrets" / "acme"
    place.mkdir(parents=True)
    (place / "key").write_text(SECRET)
    (place / "key").chmod(0o600)
    place.chmod(0o700)
    place.parent.chmod(0o700)
    yield place.parent


def measure_workers(
    requests: int, endpoints: int, in_flight: int, workers: int, partitions: int, batch: int = 0
) -> Measured:
    """`batch`: messages in each request; 0: single events. The workers have taken their partitions before the
    deliveries can be read, all of them at once."""
    with tempfile.TemporaryDirectory(prefix="bench-") as made, Receiver() as receiver, ExitStack() as stack:
        folder = Path(made)
        broker = stack.enter_context(DevBroker(folder / "broker", heap="1g"))
        secrets = stack.enter_context(_folder_of_secrets(folder))
        _prepare(broker.bootstrap_servers, receiver.port, endpoints, in_flight, partitions, batch)
        arguments = ["deliver", "--bootstrap-servers", broker.bootstrap_servers, "--allow-http", "--allow-network",
                     "127.0.0.0/8", "--secrets", str(secrets)]  # fmt: skip
        processes = [stack.enter_context(JobProcess(arguments, folder)) for _ in range(workers)]
        until(lambda: _have_joined(broker.bootstrap_servers, workers, partitions), processes[0].err, WITHIN_S)
        _append(broker.bootstrap_servers, requests, endpoints, partitions)
        return measured(receiver, [one.process.pid for one in processes], requests, processes[0].err)


def _have_joined(servers: str, workers: int, partitions: int) -> bool:
    """Each worker is a member of the group, and together they have all partitions."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    try:
        members = admin.describe_consumer_groups([GROUP])[GROUP].result().members
    except KafkaException:  # the group has no coordinator yet
        return False
    taken = [len(one.assignment.topic_partitions) for one in members]
    return len(taken) == workers and min(taken, default=0) > 0 and sum(taken) == partitions


def measured(receiver: Receiver, pids: Sequence[int], requests: int, err: Callable[[], str]) -> Measured:
    """From the first request to the last one."""
    until(lambda: receiver.count.value > 0, err, WITHIN_S)
    begun, before = _cpu_s(pids), receiver.count.value
    until(lambda: receiver.count.value >= requests, err, WITHIN_S)
    return Measured(receiver.rate, (_cpu_s(pids) - begun) / (requests - before) * 1e6)


def _cpu_s(pids: Sequence[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(its.user + its.system for its in times)


def _prepare(servers: str, port: int, endpoints: int, in_flight: int, partitions: int, batch: int = 0) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = [NewTopic("deliveries", partitions, 1), NewTopic("endpoints", 1, 1), NewTopic("subscriptions", 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    for number in range(endpoints):
        row = {"endpointId": f"e{number}", "owner": "acme", "url": f"http://127.0.0.1:{port}/{number}",
               "secrets": ["key"], "maxInFlight": max(1, in_flight // endpoints)}  # fmt: skip
        its: dict[str, Any] = {
            "subscriptionId": f"s{number}", "endpointId": f"e{number}", "owner": "acme", "types": ["*"],
            **({"mode": "batch", "maxMessages": batch} if batch else {}),
        }  # fmt: skip
        producer.produce("endpoints", json.dumps(row).encode(), f"e{number}".encode())
        producer.produce("subscriptions", json.dumps(its).encode(), f"s{number}".encode())
    assert producer.flush(WITHIN_S) == 0


def _append(servers: str, requests: int, endpoints: int, partitions: int) -> None:
    """In one transaction: nothing of it can be read before all of it."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "transactional.id": "bench",
                         "queue.buffering.max.messages": max(100_000, requests + 1)})  # fmt: skip
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(requests):
        name = f"e{number % endpoints}"
        one = delivery(
            delivery_id=f"msg_{number}", endpoint_id=name, subscription_id=f"s{number % endpoints}", body=BODY,
            endpoint_row=RowPlace(0, 0), subscription_row=RowPlace(0, 0), sequence=f"{number:012d}",
            time_ms=time.time_ns() // 1_000_000,
        )  # fmt: skip
        producer.produce("deliveries", stored(one), name.encode(), partition_of_key(name.encode(), partitions))
        producer.poll(0)
    producer.commit_transaction(WITHIN_S)


def by_turns(senders: Mapping[str, Callable[[], Measured]], runs: int) -> None:
    """Runs each so many times and prints the figures. Ratios are to the first one."""
    table = Table("sender", "messages/s", "CPU us/message")
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        for name, measure in senders.items():
            its = measure()
            rates[name].append(its.rate)
            table.add_row(name, f"{its.rate:,.0f}", f"{its.cpu_us:.0f}")
    Console(width=100).print(table)
    first, *others = {name: statistics.mean(its) for name, its in rates.items()}.items()
    for name, rate in others:
        print(f"{name} / {first[0]}: {rate / first[1]:.2f}")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--endpoints", type=int, default=100)
    parser.add_argument("--in-flight", type=int, default=200, help="requests at the same time, of all endpoints")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of deliveries")
    parser.add_argument("--runs", type=int, default=1, help="of each, by turns")
    return parser


def main(arguments: list[str]) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--workers", type=int, action="append", help="processes; may be repeated (1)")
    parser.add_argument("--batch", type=int, action="append", help="messages of a request of a worker, too")
    a = parser.parse_args(arguments)
    senders = {"aiohttp client": partial(measure_client, a.requests, a.in_flight)}
    for workers in a.workers or [1]:
        name = f"{workers} workers"
        senders[name] = partial(measure_workers, a.requests, a.endpoints, a.in_flight, workers, a.partitions)
    for batch in a.batch or []:
        name = f"1 worker, batches of {batch:,}"
        senders[name] = partial(measure_workers, a.requests, a.endpoints, a.in_flight, 1, a.partitions, batch)
    by_turns(senders, a.runs)
    print(f"{len(BODY)} bytes a body (wanted: {WANTED:,} requests/s)")
