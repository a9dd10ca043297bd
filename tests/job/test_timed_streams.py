"""Three services in a row over timed streams, on a real broker and Spark, write what Bench says of the same records;
also when they are killed, rescaled and replayed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from moneystate.api.codec import Codec
from moneystate.api.plan import Plan
from moneystate.devbroker import DevBroker
from moneystate.engine.items import END_OF_TIME
from moneystate.engine.place import MARK, PLACE, time_of
from moneystate.testing import Bench
from tests.api.services import chain
from tests.api.test_timed import moves
from tests.job.harness import Finished, JobProcess, moneystate
from tests.job.warm import Warm
from tests.kafka.logs import Cluster, wait_until_stable
from tests.reference import kafka_log

EVENTS = moves(5, 240)
BEFORE = 160


class Chain:
    """The services of this module on one broker."""

    replays: list[dict[str, Any]]  # what `verify-replay` printed for the first two services

    def __init__(self, broker: DevBroker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.warm = Warm()
        self.cluster = Cluster(broker.bootstrap_servers, "")
        self.module = Path(shutil.copy(chain.__file__, folder / "chain.py"))
        for topic in ("moves", "closings"):
            self.cluster.create(topic, 1)

    def send(self, events: list[Any]) -> None:
        producer = self.cluster.producer()
        codecs = {
            i.codec.record.cls: (i.topic, i.codec)
            for service in (chain.accounts, chain.branches)
            for its in Plan(service).inputs.values()
            for i in its.values()
        }
        for event in events:
            topic, codec = codecs[type(event)]
            producer.produce(topic, codec.encode(event), partition=0)
        assert producer.flush(30) == 0

    def moneystate(self, *arguments: object) -> Finished:
        return moneystate(arguments, self.folder, self.warm)

    def names(self, *services: str) -> list[str]:
        return [f"{self.module}:{service}" for service in services]

    def arguments(self, checkpoint: str, services: list[str], *more: object) -> list[str]:
        """Returns the arguments of a run."""
        arguments = (
            *("run", *self.names(*services), "--bootstrap-servers", self.broker.bootstrap_servers, "--quiet"),
            *("--checkpoint", self.folder / checkpoint, "--topic-partitions", "4", *more),
        )
        return [str(argument) for argument in arguments]

    def run(self, checkpoint: str, services: list[str], *more: object) -> None:
        self.moneystate(*self.arguments(checkpoint, services, *more))

    def killed(self, step: str, checkpoint: str, services: list[str], *more: object) -> None:
        paused = self.folder / "paused"
        paused.unlink(missing_ok=True)
        env = {"MONEYSTATE_PAUSE_AT": step, "MONEYSTATE_PAUSE_FILE": str(paused)}
        with JobProcess(self.arguments(checkpoint, services, *more), self.folder, env) as job:
            job.wait_for(paused.exists, step)

    def replay(self, checkpoint: str, service: str) -> dict[str, Any]:
        return self.moneystate(
            *("verify-replay", "--checkpoint", self.folder / checkpoint, "--service", *self.names(service)),
            *("--bootstrap-servers", self.broker.bootstrap_servers, "--json", "--quiet"),
        ).totals

    def read(self, topic: str) -> list[Any]:
        wait_until_stable(AdminClient({"bootstrap.servers": self.broker.bootstrap_servers}), [topic])
        return kafka_log.read_log(self.broker.bootstrap_servers, [topic], "")[0]


TWO = ("--key-groups", "4", "--partitions", "2")
ENDS = ("--until-caught-up", "--drain")


@pytest.fixture
def released(own_broker: DevBroker, tmp_path: Path) -> Iterator[Chain]:
    """No job has run."""
    made = Chain(own_broker, tmp_path)
    for name in made.names("accounts", "branches", "book"):
        made.moneystate("schemas", "release", name)
    yield made
    made.warm.close()
    for topic in made.cluster.names() - {"__consumer_offsets", "__transaction_state"}:
        made.cluster.delete(topic)


@pytest.fixture
def chained(released: Chain) -> Chain:
    """Each ran to the end of its input."""
    released.send(EVENTS)
    for service, ends in (("accounts", ENDS), ("branches", ENDS), ("book", ENDS[:1])):
        released.run(service, [service], *TWO, *ends)
    return released


@pytest.fixture
def killed(released: Chain) -> Chain:
    """The first two were killed, and the first was rescaled."""
    made, folder = released, released.folder
    made.send(EVENTS[:BEFORE])
    few = ("--max-records-per-batch", "40")
    made.killed("marked@1", "all", ["accounts", "branches", "book"], *TWO, *few)
    made.run("all/accounts", ["accounts"], *TWO, "--until-caught-up")
    made.replays = [made.replay("all/accounts", "accounts")]
    made.moneystate(
        *("checkpoint", "export", "--checkpoint", folder / "all" / "accounts", "--out", folder / "savepoint"),
        *("--key-groups", "6", "--service", *made.names("accounts"), "--quiet"),
    )
    made.send(EVENTS[BEFORE:])
    more = ("--key-groups", "6", "--partitions", "3", "--initial-state", folder / "savepoint")
    made.run("rescaled", ["accounts"], *more, *ENDS)
    made.killed("produced@3", "all/branches", ["branches"], *TWO, *few)
    made.run("all/branches", ["branches"], *TWO, *ENDS)
    made.replays.append(made.replay("all/branches", "branches"))
    made.run("all/book", ["book"], *TWO, "--until-caught-up")
    return made


def benched() -> Bench:
    bench = Bench(chain.accounts, chain.branches, chain.book)
    bench.send(*EVENTS)
    bench.end()
    return bench


def decoded(records: list[Any], codec: Codec) -> list[Any]:
    return [codec.decode(r.value) for r in records if MARK not in dict(r.headers)]


def check_output(made: Chain) -> None:
    bench = benched()
    for service, output in ((chain.accounts, chain.stands), (chain.branches, chain.noted)):
        got = decoded(made.read(output.topic), Plan(service).outputs[output].codec)
        assert sorted(map(repr, got)) == sorted(map(repr, bench.out(output)))
    got = decoded(made.read("entries"), Plan(chain.book).outputs[chain.entries].codec)
    assert got == bench.out(chain.entries)  # one key: in the order of their places, from end to end
    assert len(got) > 300


def check_marks(made: Chain) -> None:
    """Each partition of a timed stream has the marks of the one partition that writes it."""
    last: dict[int, int] = {}
    for record in sorted(made.read("stands"), key=lambda r: r.offset):
        headers = dict(record.headers)
        time = time_of(headers.get(MARK) or headers[PLACE])
        assert time is not None
        assert time >= last.get(record.partition, time)
        if MARK in headers:
            last[record.partition] = time
    assert last == dict.fromkeys(range(4), END_OF_TIME)


@pytest.mark.long
def test_the_chain_writes_what_bench_says(chained: Chain) -> None:
    check_output(chained)
    check_marks(chained)


def test_the_chain_writes_the_same_in_one_process_without_spark(released: Chain) -> None:
    released.send(EVENTS)
    released.run("local", ["accounts", "branches"], *TWO, *ENDS, "--local")
    released.run("local-book", ["book"], *TWO, "--until-caught-up", "--local")
    check_output(released)
    check_marks(released)


@pytest.mark.long
def test_a_killed_and_rescaled_chain_writes_the_same_and_so_does_its_replay(killed: Chain) -> None:
    check_output(killed)
    check_marks(killed)
    for replay in killed.replays:
        assert replay["agrees"]
        assert replay["output_expected"] > 100
