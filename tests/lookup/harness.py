"""Workers on a real broker and a real HTTP service: in this process, or as processes of their own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from moneystate.kafka.client import is_end_of_partition, range_consumer
from moneystate.kafka.offsets import high_watermark
from moneystate.lookup.http_service import ServiceConfig
from moneystate.lookup.metrics import Metrics
from moneystate.lookup.resolver import Policy
from moneystate.lookup.worker import Worker, WorkerConfig
from moneystate.runtime.plans import plan_of
from services.enrichment.fake_service import Behaviour, FakeSessionService, HttpAnswer
from tests.job.harness import JobProcess
from tests.kafka.logs import Cluster, wait_until_stable
from tests.reference.codec import Json, decode, encode

REQUESTS, RESULTS = "session-lookup-requests", "session-lookup-results"
DONE_S = 90.0  # a handful of lookups takes less than a second; past this it hangs
POLL_S = 0.02
LOOKUP = next(iter(plan_of("services.enrichment.service:service").lookups.values()))
QUICK = Policy(attempts=3, timeout_s=1.0, deadline_s=10.0, backoff_s=0.01, concurrency=100)
# A killed worker is out of the way within seconds.
SHORT = {"session.timeout.ms": "1500", "heartbeat.interval.ms": "300", "transaction.timeout.ms": "3000"}


class Reply(NamedTuple):
    money: str
    requested_at: int
    outcome: str
    country: str | None
    attempts: int


class Lookups:
    """The two topics of one test."""

    def __init__(self, cluster: Cluster, folder: Path, partitions: int = 2) -> None:
        self.cluster = cluster
        self.folder = folder
        self.partitions = partitions
        for name in (REQUESTS, RESULTS):
            cluster.create(name, partitions)

    def ask(self, *requests: Json) -> None:
        """Append requests, as `request` makes them; each user's in one partition."""
        producer = self.cluster.producer(partitioner="murmur2_random")
        for fields in requests:
            value = encode("SessionLookupRequested", fields)
            producer.produce(self.cluster.prefix + REQUESTS, value, fields["userId"].encode())
        assert producer.flush(DONE_S) == 0

    def ask_many(self, n: int, first: int = 0) -> list[Json]:
        requests = [request(f"m{i}", session=f"s{i}", user=f"u{i % 50}", at=i) for i in range(first, first + n)]
        self.ask(*requests)
        return requests

    def answer(self, *replies: Json) -> None:
        """Append replies that no worker of the test wrote."""
        values = [encode("SessionLookupCompleted", fields) for fields in replies]
        self.cluster.send(self.cluster.prefix + RESULTS, values)

    def replies(self) -> list[Reply]:
        """The committed ones, by partition and offset."""
        wait_until_stable(self.cluster.admin, [self.cluster.prefix + RESULTS])
        return [_reply(m.value()) for m in sorted(self._read(None), key=lambda m: (m.partition(), m.offset()))]

    def wait_for(self, n: int, running: Callable[[], None] = lambda: None) -> list[Reply]:
        """Until there are `n` replies. Raises AssertionError past the deadline."""
        self._read(n, running)
        return self.replies()

    def wait_for_some(self, n: int, running: Callable[[], None]) -> None:
        """As `wait_for`, while transactions may be open."""
        self._read(n, running)

    def visible(self) -> int:
        """How many replies a read_committed reader sees at this moment."""
        return len(self._read(None))

    def _read(self, n: int | None, running: Callable[[], None] = lambda: None) -> list[Message]:
        """The first `n` records of the results, or all that there are."""
        topic = self.cluster.prefix + RESULTS
        consumer = range_consumer(self.cluster.bootstrap_servers, {}, "test", **{"fetch.wait.max.ms": 20})
        consumer.assign([TopicPartition(topic, p, 0) for p in range(self.partitions)])
        read: list[Message] = []
        ended: set[int | None] = set()
        deadline = time.monotonic() + DONE_S
        while len(read) < n if n is not None else len(ended) < self.partitions:
            running()
            assert time.monotonic() < deadline, f"{len(read)} of {n} replies"
            for message in consumer.consume(10_000, POLL_S):
                if message.error() is None:
                    read.append(message)
                elif is_end_of_partition(message):
                    ended.add(message.partition())
        consumer.close()
        return read

    def lag(self, group: str) -> dict[int, int]:
        """What the group has not done of each partition, transaction markers left out: none are in these requests."""
        topic = self.cluster.prefix + REQUESTS
        ends = {p: high_watermark(self.cluster.admin, topic, p) for p in range(self.partitions)}
        return {p: ends[p] - max(0, offset) for p, offset in self.committed(group).items()}

    def committed(self, group: str) -> dict[int, int]:
        """The group's offsets, -1 where there is none yet."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": group})
        try:
            wanted = [TopicPartition(self.cluster.prefix + REQUESTS, p) for p in range(self.partitions)]
            return {tp.partition: tp.offset for tp in consumer.committed(wanted, timeout=DONE_S)}
        except KafkaException as e:
            if not e.args[0].retriable() and e.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return dict.fromkeys(range(self.partitions), -1)  # a broker on the way up
        finally:
            consumer.close()

    def config(self, fake: FakeSessionService, policy: Policy = QUICK, **more: Any) -> WorkerConfig:
        given: dict[str, Any] = {
            "group": self.cluster.prefix + "lookup",
            "worker_id": "w0",
            "data": self.folder / "index",
            "service": ServiceConfig(fake.url),
            "extra": SHORT,
            **more,
        }
        prefix = self.cluster.prefix
        return WorkerConfig(
            LOOKUP,
            self.cluster.bootstrap_servers,
            requests=prefix + REQUESTS,
            results=prefix + RESULTS,
            policy=policy,
            **given,
        )

    def process(self, service: FakeSessionService, *more: str, env: dict[str, str] | None = None) -> JobProcess:
        """`moneystate lookup-worker` on these topics."""
        arguments = ["lookup-worker", "enrichment", "--bootstrap-servers", self.cluster.bootstrap_servers]
        arguments += ["--topic-prefix", self.cluster.prefix, "--url", service.url]
        short = [part for name, value in SHORT.items() for part in ("--kafka-config", f"{name}={value}")]
        return JobProcess([*arguments, *short, *more], self.folder, env)


class Running:
    """A worker in a thread of this process, until the end of the block."""

    def __init__(self, config: WorkerConfig) -> None:
        self.metrics = Metrics()
        self.config = config
        self.worker: Worker
        self.failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self.worker = Worker(self.config, self.metrics)
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self.worker.stop)
        self._thread.join(DONE_S)
        assert not self._thread.is_alive()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def wait_for(self, condition: Callable[[], bool], description: str) -> None:
        deadline = time.monotonic() + DONE_S
        while not condition():
            self.check()
            assert time.monotonic() < deadline, description
            self._thread.join(POLL_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self.worker.run())
        except BaseException as e:
            self.failure = e


def request(money: str = "m", session: str = "s", user: str = "ann", at: int = 1_000, reason: str = "LATE") -> Json:
    """A SessionLookupRequested; `at` in ms."""
    fields = {"moneyId": money, "userId": user, "userSessionId": session, "requestedAt": at}
    return {**fields, "reason": reason}


def reply_to(asked: Json, outcome: str, country: str | None = None) -> Json:
    """A SessionLookupCompleted."""
    shared_fields = {name: value for name, value in asked.items() if name != "reason"}
    return {**shared_fields, "outcome": outcome, "clientCountryCode": country, "attempts": 1, "completedAt": 0}


def found(country: str = "UY") -> HttpAnswer:
    return HttpAnswer(200, b'{"clientCountryCode": "%s"}' % country.encode())


def scripted(*answers: HttpAnswer, then: HttpAnswer) -> Behaviour:
    """These answers to a session's first calls, then always the last."""
    return lambda _session, before: answers[before] if before < len(answers) else then


def outcomes(replies: Iterable[Reply]) -> dict[str, str]:
    """Returns the outcomes by money id."""
    return {reply.money: reply.outcome for reply in replies}


def check_answered_once(requests: Sequence[Json], replies: Sequence[Reply]) -> None:
    asked = {(r["moneyId"], r["requestedAt"]) for r in requests}
    assert Counter((r.money, r.requested_at) for r in replies) == Counter(asked)


def _reply(value: bytes | None) -> Reply:
    assert value is not None
    _, fields = decode(value)
    return Reply(
        fields["moneyId"], fields["requestedAt"], fields["outcome"], fields["clientCountryCode"], fields["attempts"]
    )
