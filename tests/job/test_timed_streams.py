"""Three services in a row over timed streams, on a real broker and Spark, write what Bench says of the same records.

Kills, rescaling and replays are in `tests/local/test_timed_streams.py`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moneystate.devbroker import DevBroker
from moneystate.engine.items import END_OF_TIME
from moneystate.engine.place import MARK, PLACE, time_of
from moneystate.records.codec import Codec
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
from tests.api.services import chain
from tests.api.test_timed import moves
from tests.job.harness import Finished, moneystate
from tests.job.warm import Warm
from tests.kafka.logs import Cluster

EVENTS = moves(5, 240)


class Chain:
    """The services of this module on one log."""

    way: tuple[str, ...] = ()  # to run

    def __init__(self, bootstrap_servers: str, folder: Path, module: str) -> None:
        self.folder = folder
        self.warm = Warm()
        self.cluster = Cluster(bootstrap_servers, "")
        self.module = Path(shutil.copy(chain.__file__, folder / module))
        for topic in ("moves", "closings"):
            self.cluster.create(topic, 1)

    def release(self) -> None:
        for name in self.names("accounts", "branches", "book"):
            self.moneystate("schemas", "release", name)

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
            *(
                "run",
                *self.way,
                *self.names(*services),
                "--bootstrap-servers",
                self.cluster.bootstrap_servers,
                "--quiet",
            ),
            *("--checkpoint", self.folder / checkpoint, "--topic-partitions", "4", *more),
        )
        return [str(argument) for argument in arguments]

    def run(self, checkpoint: str, services: list[str], *more: object) -> None:
        self.moneystate(*self.arguments(checkpoint, services, *more))

    def replay(self, checkpoint: str, service: str) -> dict[str, Any]:
        return self.moneystate(
            *("verify-replay", "--checkpoint", self.folder / checkpoint, "--service", *self.names(service)),
            *("--bootstrap-servers", self.cluster.bootstrap_servers, "--json", "--quiet"),
        ).totals

    def read(self, topic: str) -> list[Any]:
        return self.cluster.read(topic)


TWO = ("--key-groups", "4", "--partitions", "2")
ENDS = ("--until-caught-up", "--drain")


@pytest.fixture
def chained(own_broker: DevBroker, tmp_path: Path) -> Iterator[Chain]:
    """Each ran to the end of its input."""
    made = Chain(own_broker.bootstrap_servers, tmp_path, "chain.py")
    made.release()
    made.send(EVENTS)
    for service, ends in (("accounts", ENDS), ("branches", ENDS), ("book", ENDS[:1])):
        made.run(service, [service], *TWO, *ends)
    yield made
    made.warm.close()


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
