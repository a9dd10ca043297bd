"""A lane's steps against an imagined Kafka: what it does when a transaction fails at each place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from moneystate.errors import BrokerError
from moneystate.ingest import answers
from moneystate.ingest.answers import Answer, Place
from moneystate.ingest.deliveries import Undelivered
from moneystate.ingest.key_log import Tail
from moneystate.ingest.keys import Kept, decode, request_key
from moneystate.ingest.lanes import Lane, Write
from moneystate.ingest.refusals import Refused
from moneystate.ingest.topics import Outgoing

KEYS, NOW_MS, KEEP_MS = "keys", 1_000_000, 3_600_000
FENCED = KafkaError(KafkaError._FENCED, "fenced", True)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "timed out", False, True)
ABORTABLE = KafkaError(KafkaError._MSG_TIMED_OUT, "not confirmed", False, False, True)


@dataclass
class Kafka:
    """The log of one broker, and the faults that come next: for each call, what it raises."""

    log: list[tuple[str, bytes | None, bytes]] = field(default_factory=list)  # committed records
    faults: dict[str, list[Any]] = field(default_factory=dict)
    epoch: int = 0
    calls: list[str] = field(default_factory=list)

    def fault(self, call: str) -> None:
        self.calls.append(call)
        planned = self.faults.get(call)
        if planned and (error := planned.pop(0)) is not None:
            raise error

    def connect(self) -> Any:
        return Producer(self)

    topic = KEYS

    def tail(self, partition: int, position: int | None, kept_since_ms: int) -> Tail:
        self.fault("tail")
        entries: list[tuple[bytes, Kept]] = [
            (key or b"", decode(KEYS, value, NOW_MS)) for topic, key, value in self.log if topic == KEYS
        ]
        return Tail(entries, len(self.log))


class Producer:
    """A producer and its deliveries in one."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.epoch = 0
        self.open: list[tuple[str, bytes | None, bytes]] = []
        self.producer = self

    def init_transactions(self, _: float) -> None:
        self.kafka.fault("init")
        self.kafka.epoch += 1
        self.epoch = self.kafka.epoch

    def begin_transaction(self) -> None:
        self.open = []

    def send(self, outgoing: Outgoing, partition: int | None = None) -> asyncio.Future[Place]:
        future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        try:
            self.kafka.fault("keep" if outgoing.topic == KEYS else "send")
            if self.epoch != self.kafka.epoch:
                raise Undelivered(FENCED)
        except Undelivered as e:
            future.set_exception(e)
        else:
            self.open.append((outgoing.topic, outgoing.key, outgoing.value))
            future.set_result((0, len(self.kafka.log) + len(self.open) - 1))
        return future

    def commit_transaction(self, _: float) -> None:
        if self.epoch != self.kafka.epoch:
            raise KafkaException(FENCED)
        self.kafka.fault("commit")
        self.kafka.log += self.open
        self.kafka.fault("committed")

    def abort_transaction(self, _: float) -> None:
        self.kafka.fault("abort")
        if self.epoch != self.kafka.epoch:
            raise KafkaException(FENCED)
        self.open = []

    def let_go(self) -> None: ...
    def purge(self) -> None: ...
    def close(self) -> None: ...


def outgoing(number: int) -> Outgoing:
    return Outgoing("payments", None, b"%d" % number, None)


def one(places: Sequence[Place]) -> Answer:
    return answers.one(places[0])


async def outcome(lane: Lane, number: int, key: str = "", within_s: float = 5.0) -> str:
    """How a request ends: `new`, `again`, or the code of the refusal."""
    loop = asyncio.get_running_loop()
    request = request_key("c", key, "payments", "", b"%d" % number) if key else None
    write = Write([outgoing(number)], request, one, loop.create_future(), loop.time() + within_s)
    try:
        lane.write(write)
        _, replayed = await write.done
    except Refused as e:
        return e.code
    return "again" if replayed else "new"


def lane_of(kafka: Kafka, keys: bool = True) -> Lane:
    log: Any = kafka if keys else None
    return Lane("lane", kafka.connect, ThreadPoolExecutor(1), log, 0, KEEP_MS, lambda: NOW_MS)


def values(kafka: Kafka) -> list[bytes]:
    return [value for topic, _, value in kafka.log if topic == "payments"]


FAULTS: list[tuple[str, Any]] = [
    ("init", KafkaException(TIMED_OUT)),
    ("init", KafkaException(FENCED)),
    ("send", Undelivered(FENCED)),
    ("keep", Undelivered(FENCED)),
    ("commit", KafkaException(FENCED)),
    ("commit", KafkaException(TIMED_OUT)),
    ("commit", SystemError("a callback ran after a fatal error")),
    ("committed", KafkaException(TIMED_OUT)),
    ("committed", KafkaException(FENCED)),
]


@pytest.mark.parametrize(("call", "error"), FAULTS, ids=[f"{call} {n}" for n, (call, _) in enumerate(FAULTS)])
def test_a_request_with_a_key_is_written_once_whatever_fails(call: str, error: Any) -> None:
    kafka = Kafka(faults={call: [error]})

    async def story() -> list[str]:
        lane = lane_of(kafka)
        return [await outcome(lane, 1, "k"), await outcome(lane, 1, "k"), await outcome(lane, 2, "l")]

    first, second, third = asyncio.run(story())
    assert first == ("again" if call == "committed" else "new")
    assert (second, third) == ("again", "new")
    assert values(kafka) == [b"1", b"2"]


@pytest.mark.parametrize(("call", "error"), FAULTS, ids=[f"{call} {n}" for n, (call, _) in enumerate(FAULTS)])
def test_without_a_key_an_unknown_end_is_told(call: str, error: Any) -> None:
    kafka = Kafka(faults={call: [error]})

    async def story() -> list[str]:
        lane = lane_of(kafka, keys=False)
        return [await outcome(lane, 1), await outcome(lane, 2)]

    first, second = asyncio.run(story())
    assert first == ("UNKNOWN_OUTCOME" if call in ("send", "commit", "committed") else "new")
    assert second == "new"
    assert values(kafka) == ([b"2"] if first == "UNKNOWN_OUTCOME" and call != "committed" else [b"1", b"2"])


@pytest.mark.parametrize(
    ("call", "error"),
    [("send", Undelivered(ABORTABLE)), ("keep", Undelivered(ABORTABLE)), ("commit", KafkaException(ABORTABLE))],
)
def test_after_an_abort_nothing_is_in_the_log_and_the_key_is_free(call: str, error: Any) -> None:
    kafka = Kafka(faults={call: [error]})

    async def story() -> list[str]:
        lane = lane_of(kafka)
        return [await outcome(lane, 1, "k"), await outcome(lane, 1, "k")]

    assert asyncio.run(story()) == ["UNAVAILABLE", "new"]
    assert values(kafka) == [b"1"]
    assert kafka.calls.count("init") == 1


def test_one_request_that_is_too_large_spoils_no_other() -> None:
    too_large = Undelivered(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    kafka = Kafka(faults={"send": [None, None, too_large, None, None, too_large]})

    async def story() -> list[str]:
        lane = lane_of(kafka)
        await outcome(lane, 0, "a")
        return list(await asyncio.gather(*[outcome(lane, n, f"k{n}") for n in range(1, 4)]))

    # the three are one transaction, in which the second is refused; then each is tried by itself
    assert asyncio.run(story()) == ["new", "RECORD_TOO_LARGE", "new"]
    assert values(kafka) == [b"0", b"1", b"3"]


def test_a_key_in_progress_and_a_key_that_was_used() -> None:
    kafka = Kafka()

    async def story() -> list[str]:
        lane = lane_of(kafka)
        both = list(await asyncio.gather(outcome(lane, 1, "k"), outcome(lane, 1, "k")))
        return [*both, await outcome(lane, 2, "k"), await outcome(lane, 1, "k")]

    assert asyncio.run(story()) == ["new", "KEY_IN_PROGRESS", "KEY_USED", "again"]
    assert values(kafka) == [b"1"]


def test_a_successor_knows_the_keys_and_the_predecessor_writes_none_twice() -> None:
    kafka = Kafka()

    async def story() -> list[str]:
        one, other = lane_of(kafka), lane_of(kafka)
        told = [await outcome(one, 1, "k"), await outcome(other, 1, "k"), await outcome(other, 2, "l")]
        told += [await outcome(one, 2, "l"), await outcome(one, 3, "m"), await outcome(other, 3, "m")]
        return told

    assert asyncio.run(story()) == ["new", "again", "new", "again", "new", "again"]
    assert values(kafka) == [b"1", b"2", b"3"]


def test_a_request_that_was_given_up_before_its_turn_is_not_written() -> None:
    """Its caller may have sent it again: then both wait."""
    kafka = Kafka()

    async def story() -> str:
        lane = lane_of(kafka)
        loop = asyncio.get_running_loop()
        key = request_key("c", "k", "payments", "", b"1")
        late = Write([outgoing(1)], key, one, loop.create_future(), 0.0)
        lane.write(late)
        late.done.cancel()
        await asyncio.sleep(0)
        return await outcome(lane, 1, "k")

    assert asyncio.run(story()) == "new"
    assert values(kafka) == [b"1"]


def test_a_lane_whose_keys_cannot_be_read_writes_nothing() -> None:
    kafka = Kafka(faults={"tail": [BrokerError("away")]})

    async def story() -> list[str]:
        lane = lane_of(kafka)
        return [await outcome(lane, 1, "k"), await outcome(lane, 1, "k")]

    assert asyncio.run(story()) == ["UNAVAILABLE", "new"]
    assert values(kafka) == [b"1"]
