"""Three services in a row over timed streams, on a real broker and real Spark: killed, rescaled and replayed, they
write what Bench says of the same records."""

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
        """Of a run."""
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


@pytest.fixture(scope="module")
def chained(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("chain")
    made = Chain(own_broker, folder)
    for name in made.names("accounts", "branches", "book"):
        made.moneystate("schemas", "release", name)
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
    yield made
    made.warm.close()


def benched() -> Bench:
    bench = Bench(chain.accounts, chain.branches, chain.book)
    bench.send(*EVENTS)
    bench.end()
    return bench


def decoded(records: list[Any], codec: Codec) -> list[Any]:
    return [codec.decode(r.value) for r in records if MARK not in dict(r.headers)]


def test_the_chain_writes_what_bench_says_whatever_was_killed_and_rescaled(chained: Chain) -> None:
    bench = benched()
    for service, output in ((chain.accounts, chain.stands), (chain.branches, chain.noted)):
        got = decoded(chained.read(output.topic), Plan(service).outputs[output].codec)
        assert sorted(map(repr, got)) == sorted(map(repr, bench.out(output)))
    got = decoded(chained.read("entries"), Plan(chain.book).outputs[chain.entries].codec)
    assert got == bench.out(chain.entries)  # one key: in the order of their places, from end to end
    assert len(got) > 300


def test_each_partition_of_a_timed_stream_has_the_marks_of_the_one_that_writes_it(chained: Chain) -> None:
    last: dict[int, int] = {}
    for record in sorted(chained.read("stands"), key=lambda r: r.offset):
        headers = dict(record.headers)
        time = time_of(headers.get(MARK) or headers[PLACE])
        assert time is not None
        assert time >= last.get(record.partition, time)
        if MARK in headers:
            last[record.partition] = time
    assert last == dict.fromkeys(range(4), END_OF_TIME)


def test_a_replay_of_writer_and_reader_gives_their_state_and_output(chained: Chain) -> None:
    for replay in chained.replays:
        assert replay["agrees"]
        assert replay["output_expected"] > 100
