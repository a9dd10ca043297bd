"""What kills, stops, several processes and an absent broker do to requests: only real processes show it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from moneystate.devbroker import DevBroker
from tests.ingest.harness import JSON, WITHIN_S, Server, payment, written
from tests.ops.rules import check_healthy
from tests.ports import free_port, free_ports
from tests.scrape import health, scraped
from tests.waiting import until

RECORDS = "payments=json"


@dataclass
class Load:
    """Clients that send payments until they are told to stop. Those with a key send again until they know."""

    ports: list[int]
    seed: int
    senders: int = 6
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)  # of the 202, by payment
    keyed: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)  # those that got no answer, or another one
    stopping: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[Load]:
        thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        thread.start()
        try:
            yield self
        finally:
            self.stopping.set()
            thread.join()

    def answered(self, count: int) -> None:
        """Waits until so many payments are answered."""
        until(lambda: len(self.answers) >= count, lambda: f"only {len(self.answers)} of {count} answers", WITHIN_S)

    async def _run(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WITHIN_S)) as session:
            await asyncio.gather(*[self._sender(session, n) for n in range(self.senders)])

    async def _sender(self, session: aiohttp.ClientSession, sender: int) -> None:
        rng, number = random.Random(self.seed * 100 + sender), 0
        while not self.stopping.is_set():
            number += 1
            name = f"s{sender}-{number}"
            if sender % 3 == 0:
                await self._plain(session, name, rng)
            elif sender % 3 == 1:
                await self._keyed(session, [name], rng)
            else:
                await self._keyed(session, [f"{name}-{n}" for n in range(rng.randint(1, 5))], rng)

    async def _plain(self, session: aiohttp.ClientSession, name: str, rng: random.Random) -> None:
        answer = await self._post(session, [name], rng, {})
        if answer is None or answer[0] != 202:
            self.unsure.add(name)
            await asyncio.sleep(0.02)
        else:
            self.answers[name] = [answer]

    async def _keyed(self, session: aiohttp.ClientSession, names: list[str], rng: random.Random) -> None:
        """Sends it again, and once more after an answer, to any process."""
        self.keyed.update(names)
        known = 0
        while known < 2:
            answer = await self._post(session, names, rng, {"Idempotency-Key": names[0]})
            if answer is not None and answer[0] == 202:
                known += 1
                for name in names:
                    self.answers.setdefault(name, []).append(answer)
                if rng.random() < 0.7:
                    return
            else:
                if self.stopping.is_set():
                    self.unsure.update(names)
                    return
                await asyncio.sleep(0.02)

    async def _post(
        self, session: aiohttp.ClientSession, names: list[str], rng: random.Random, headers: dict[str, str]
    ) -> tuple[int, Any] | None:
        records = [payment(n, paymentId=name, orderId=name) for n, name in enumerate(names)]
        body = json.dumps(records[0] if len(names) == 1 else records)
        url = f"http://127.0.0.1:{rng.choice(self.ports)}/v1/payments"
        try:
            async with session.post(url, data=body, headers={**JSON, **headers}) as reply:
                answer = await reply.json()
                assert reply.status in (202, 409, 503), answer
                return reply.status, answer
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None


def check(servers: str, prefix: str, load: Load) -> None:
    """Each 202 is in the log, where it says; what has a key is there once at most."""
    there = {(r.partition, r.offset): json.loads(r.value)["paymentId"] for r in written(servers, prefix + "payments")}
    counts = Counter(there.values())
    assert load.answers
    for name, answers in load.answers.items():
        bodies = [body for _, body in answers]
        assert bodies == bodies[:1] * len(bodies), name
        places = bodies[0].get("records", bodies[:1])
        assert name in {there.get((p["partition"], p["offset"])) for p in places}, name
        assert counts[name] >= 1
    assert {name: n for name, n in counts.items() if name in load.keyed and n != 1} == {}
    assert counts.keys() <= load.answers.keys() | load.unsure


def kills(servers: str, prefix: str, rounds: int, processes: int, seed: int) -> Load:
    """Kills one of the processes, and starts it again at its port, under load."""
    rng = random.Random(seed)
    ports = free_ports(processes)
    running = [Server(servers, prefix, "--format", RECORDS, listen=f"127.0.0.1:{port}") for port in ports]
    for one in running:
        one.start()
    try:
        load = Load(ports, seed)
        with load.running():
            for _ in range(rounds):
                seen = len(load.answers)
                more = rng.randint(5, 100)
                load.answered(seen + more)
                victim = rng.choice(running)
                victim.kill()
                victim.start()
            seen = len(load.answers)
            load.answered(seen + 50)
        assert [one.terminate() for one in running] == [0] * processes
        return load
    finally:
        for one in running:
            one.__exit__(None, None, None)


def test_kills_under_load(broker: DevBroker, topic_prefix: str) -> None:
    load = kills(broker.bootstrap_servers, topic_prefix, 3, 1, seed=1)
    check(broker.bootstrap_servers, topic_prefix, load)


@pytest.mark.long
@pytest.mark.parametrize(("processes", "seed"), [(1, 2), (2, 3)])
def test_fifty_kills_under_load(broker: DevBroker, topic_prefix: str, processes: int, seed: int) -> None:
    load = kills(broker.bootstrap_servers, topic_prefix, 50, processes, seed)
    check(broker.bootstrap_servers, topic_prefix, load)


def test_two_processes_share_the_keys(broker: DevBroker, topic_prefix: str) -> None:
    """One takes the key partitions over from the other with each request, and both get on."""
    flags = ("--format", RECORDS, "--key-partitions", "1", "--confirm-timeout", "20s")
    with (
        Server(broker.bootstrap_servers, topic_prefix, *flags) as one,
        Server(broker.bootstrap_servers, topic_prefix, *flags) as other,
    ):
        clients = [one.client(), other.client()]
        for n in range(10):
            first = clients[n % 2].post("payments", payment(n), Idempotency_Key=f"k{n}")
            again = clients[1 - n % 2].post("payments", payment(n), Idempotency_Key=f"k{n}")
            assert (first.status, again.status, again.body) == (202, 202, first.body)
            assert again.headers["idempotent-replayed"] == "true"
        load = Load([one.port, other.port], 7)
        with load.running():
            load.answered(150)
    check_without(broker.bootstrap_servers, topic_prefix, load, {f"p{n}" for n in range(10)})


def check_without(servers: str, prefix: str, load: Load, others: set[str]) -> None:
    load.unsure |= others
    check(servers, prefix, load)


def test_a_process_that_was_frozen_writes_no_key_twice(broker: DevBroker, topic_prefix: str) -> None:
    """Another one takes its key partition over while it is stopped. It notices when it goes on."""
    flags = ("--format", RECORDS, "--key-partitions", "1")
    servers = broker.bootstrap_servers
    with Server(servers, topic_prefix, *flags) as frozen, Server(servers, topic_prefix, *flags) as other:
        early = frozen.client()
        assert early.post("payments", payment(1), Idempotency_Key="k1").status == 202
        frozen.process.send_signal(signal.SIGSTOP)
        body = json.dumps(payment(2)).encode()
        late = frozen.client()
        late.connection.request("POST", "/v1/payments", body, {**JSON, "Idempotency-Key": "k2"})
        first = other.client().post("payments", body, Idempotency_Key="k2")
        frozen.process.send_signal(signal.SIGCONT)
        answer = late.connection.getresponse()
        assert (first.status, answer.status, json.loads(answer.read())) == (202, 202, first.body)
        assert early.post("payments", payment(1), Idempotency_Key="k1").headers["idempotent-replayed"] == "true"
    assert Counter(json.loads(r.value)["paymentId"] for r in written(servers, topic_prefix + "payments")) == {
        "p1": 1,
        "p2": 1,
    }


def test_keys_are_kept_across_a_restart_and_forgotten_in_time(broker: DevBroker, topic_prefix: str) -> None:
    servers = broker.bootstrap_servers
    with Server(servers, topic_prefix, "--format", RECORDS) as server:
        first = server.client().post("payments", payment(1), Idempotency_Key="k")
        assert server.terminate() == 0
        server.start()
        again = server.client().post("payments", payment(1), Idempotency_Key="k")
        assert (again.body, again.headers.get("idempotent-replayed")) == (first.body, "true")
    with Server(servers, topic_prefix, "--format", RECORDS, "--keep-keys", "1s") as server:

        def is_new() -> bool:
            reply = server.client().post("payments", payment(1), Idempotency_Key="k")
            return "idempotent-replayed" not in reply.headers

        until(is_new, lambda: "never forgotten", WITHIN_S)


def test_sigterm_answers_what_is_open(broker: DevBroker, topic_prefix: str) -> None:
    with Server(broker.bootstrap_servers, topic_prefix, "--format", RECORDS) as server:
        load = Load([server.port], 11)
        with connect(f"ws://127.0.0.1:{server.port}/v1/payments") as socket, load.running():
            load.answered(100)
            for n in range(500):
                socket.send(json.dumps({"id": n, "record": payment(n, paymentId=f"w{n}")}))
            assert server.terminate() == 0
            answered = answers_of(socket)
    assert answered
    load.unsure |= {f"w{n}" for n in range(500)}
    check(broker.bootstrap_servers, topic_prefix, load)
    there = {json.loads(r.value)["paymentId"] for r in written(broker.bootstrap_servers, topic_prefix + "payments")}
    assert {name for name in there if name.startswith("w")} == {f"w{n}" for n in answered}


def answers_of(socket: Any) -> list[int]:
    """The ids of all frames that were answered until the other side closed."""
    answered: list[int] = []
    code = None
    try:
        while True:
            answered.append(json.loads(socket.recv(WITHIN_S))["id"])
    except ConnectionClosed as e:
        code = e.rcvd and e.rcvd.code
    assert code == 1001
    return answered


def test_without_a_broker_the_answer_is_503_and_then_it_goes_on(tmp_path: Path) -> None:
    metrics = free_port()
    with DevBroker(tmp_path / "broker") as broker:
        flags = ("--format", RECORDS, "--confirm-timeout", "2s", "--metrics-port", str(metrics))
        with Server(broker.bootstrap_servers, "away-", *flags) as server:
            client = server.client()
            assert client.post("payments", payment(1)).status == 202
            assert client.post("payments", payment(2), Idempotency_Key="k2").status == 202
            assert health(metrics)[0] == 200
            broker.stop()
            for body, headers in (
                (payment(3), {}),
                (payment(4), {"Idempotency_Key": "k4"}),
                ([payment(5), payment(6)], {}),
            ):
                reply = client.post("payments", body, **headers)
                assert (reply.status, reply.headers["retry-after"]) == (503, "1")
                assert reply.body["error"] in ("UNAVAILABLE", "UNKNOWN_OUTCOME")
            until(lambda: health(metrics)[0] == 503, lambda: "still ready", WITHIN_S)
            assert health(metrics, "/livez")[0] == 200
            assert client.post("payments", payment(7)).body["error"] == "UNAVAILABLE"
            broker.start()
            until(lambda: client.post("payments", payment(8)).status == 202, server.output, WITHIN_S)
            until(
                lambda: client.post("payments", payment(4), Idempotency_Key="k4").status == 202,
                server.output,
                WITHIN_S,
            )
            again = client.post("payments", payment(2), Idempotency_Key="k2")
            assert again.headers["idempotent-replayed"] == "true"
            assert health(metrics)[0] == 200
            page = scraped(metrics)
            assert page.value("moneystate_ingest_records_total", "payments") >= 3  # p4 may be there since before
            check_healthy(page, "moneystate_ingest_", tmp_path)
            counts = Counter(
                json.loads(r.value)["paymentId"] for r in written(broker.bootstrap_servers, "away-payments")
            )
            assert (counts["p2"], counts["p4"], counts["p7"]) == (1, 1, 0)
            assert counts["p5"] == counts["p6"]
            assert server.terminate() == 0
