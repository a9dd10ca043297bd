"""The life of all services that come with the platform: killed in the middle, those that ask each other also within the
loop, started again, replayed, bootstrapped from history, and rescaled. What they put out is what their references say.
Meanwhile heartbeats stand for producers that are away, and commands ask and look.

It is told on a broker and Spark (`test_live.py`), and on a log in memory (`test_local.py`).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from moneystate.engine.place import PLACE
from tests.kafka.logs import Cluster
from tests.services.live import BOUND_MS, Case, Look, Read, Written
from tests.waiting import until

NAMES: Final = ("changes", "entities", "joining", "reconciliation", "rollups", "sequencing", "stock")
CASES: Final[list[Case]] = [import_module(f"tests.services.{name}.live").CASE for name in NAMES]
LOOPS: Final = [case for case in CASES if case.beats]  # what they read last they have to be waited for
BY_CLOCK: Final = [service for case in CASES if case.broker_time for service in case.services]
SERVICES: Final = [service for case in CASES for service in case.services]
BROKER_TIME: Final = {"message_timestamp_type": "LogAppendTime"}
COMMAND_S: Final = 240.0
MOST_BEATS: Final = 400
BEFORE: Final = ("--key-groups", "4")
AFTER: Final = ("--key-groups", "7")
LIVE: Final = ("--idle-timeout", "1h")  # time is what the log says


class Live:
    """`replayed`, `bootstrapped`, `exported`: by service, what the commands said after the kill; `looked`: what was
    looked at, what it showed, and what was wanted then."""

    way: tuple[str, ...] = ()  # flags that say where jobs run

    def __init__(self, servers: str, folder: Path) -> None:
        self.cluster = Cluster(servers, "")
        self.servers = servers
        self.folder = folder
        for made_of in ("exported", "bootstrapped"):
            (folder / made_of).mkdir()
        self.config = folder / "services.toml"
        self.config.write_text("".join(case.tables for case in CASES))
        self.sent = {case.name: 0 for case in CASES}
        self.replayed: dict[str, Any] = {}
        self.bootstrapped: dict[str, Any] = {}
        self.exported: dict[str, Any] = {}
        self.looked: list[tuple[Look, Any, Any]] = []

    def send(self, share: float) -> None:
        """Write each case's log up to this share of it."""
        for case in CASES:
            end = int(share * len(case.log))
            self.write(case.log[self.sent[case.name] : end])
            self.sent[case.name] = end

    def write(self, records: Sequence[Written]) -> None:
        producer = self.cluster.producer()
        for r in records:
            headers: list[tuple[str, str | bytes | None]] = list(r.headers)
            producer.produce(r.topic, r.value, key=r.key, partition=r.partition, headers=headers)
        assert producer.flush(30) == 0

    def run(self, cases: Sequence[Case], checkpoint: str, *more: str) -> list[str]:
        """Arguments of a run of these services."""
        return [
            *(
                "run",
                *self.way,
                *[case.name for case in cases],
                "--config",
                str(self.config),
                "--bound",
                f"{BOUND_MS}ms",
            ),
            *("--bootstrap-servers", self.servers, "--checkpoint", str(self.place(checkpoint)), "--quiet"),
            *("--partitions", "2", "--topic-partitions", "2", *more),
        ]

    def place(self, folder: str, service: str = "") -> Path:
        """Returns the place of what `folder` has for each service. One by itself has no folder of its own."""
        return self.folder / folder / (service if service or len(SERVICES) > 1 else SERVICES[0])

    def offline(self, command: str, service: str, *more: str) -> list[str]:
        return [*command.split(), "--checkpoint", str(self.place("first", service)), "--json", "--quiet", *more]

    def outputs(self, topic: str, case: Case, read: Read) -> dict[str, list[Any]]:
        """Returns the outputs by key. Marks of timed streams have none, nor has what customers write to a topic of
        both. A timed stream is in the order of its places: with other key groups a key has another partition."""
        made: dict[str, list[Any]] = defaultdict(list)
        for r in sorted(read(topic), key=lambda r: dict(r.headers).get(PLACE) or b""):
            if r.key:
                made[r.key.decode()].append(None if r.value is None else case.parse(topic, r.value))
        return dict(made)

    def differing(self, case: Case) -> list[str]:
        """The topics in which something is still to come, or is not what the references say."""
        read = cache(self.read)  # all of one moment: what stands in the log later is not answered yet
        outputs = case.expected(read).outputs
        return [topic for topic, by_key in outputs.items() if self.outputs(topic, case, read) != by_key]

    def has_read_all(self, case: Case) -> bool:
        """Its services, by what ordinary lag tools see."""
        admin = self.cluster.admin
        for group in case.services:
            asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
            read = asked[group].result().topic_partitions or []
            latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            ends = admin.list_offsets({TopicPartition(p.topic, p.partition): latest for p in read})
            if any(p.offset != ends[TopicPartition(p.topic, p.partition)].result().offset for p in read):
                return False
        return True

    def letters(self, case: Case) -> Counter[str]:
        records = [r for service in case.services for r in self.read(f"{service}-dead-letters")]
        return Counter((dict(r.headers)["moneystate.reason"] or b"").decode() for r in records)

    def read(self, topic: str) -> list[Any]:
        return self.cluster.read(topic)

    def kill(self, arguments: list[str]) -> None:
        """Runs jobs, and kills everything when one has written its second batch but not noted it."""
        raise NotImplementedError

    def kill_when(self, arguments: list[str], goes_on: Callable[[], bool]) -> None:
        """Runs jobs. Once `goes_on` holds, kills everything when a batch is written but not noted."""
        raise NotImplementedError

    def serve(self, case: Case) -> str | None:
        """The address of a query server of a case's service, until the life is over. None: there can be none."""
        raise NotImplementedError


class Commands(Protocol):
    """Runs commands one after the other."""

    def __call__(self, arguments: list[str]) -> Any:
        """What the command printed as JSON, None if nothing."""

    def printed(self, arguments: list[str]) -> str: ...

    def meanwhile(self, arguments: list[str]) -> AbstractContextManager[Callable[[], None]]:
        """The command runs in this block and gets SIGTERM at its end. Gives a check that it has not ended yet."""


def live(made: Live, run: Commands) -> None:
    """The life."""
    begin(made, run)
    addresses = {case.name: address for case in CASES if case.question and (address := made.serve(case))}
    for case in LOOPS:
        kill_in_loop(made, case)
        with run.meanwhile(made.run([case], "first", *BEFORE, *LIVE)) as check:
            answer_all(made, case, 2 / 3, check)
    for service in SERVICES:
        out = str(made.place("exported", service))
        made.exported[service] = run(made.offline("checkpoint export", service, "--out", out, *AFTER))
        made.replayed[service] = run(made.offline("verify-replay", service, "--bootstrap-servers", made.servers))
        made.bootstrapped[service] = run(bootstrap(made, service))
    for case in CASES:
        if case.question is not None and case.name in addresses:
            look(made, case.question, run, "--address", addresses[case.name], "--json")
    made.send(1)
    after = (*AFTER, "--initial-state", str(made.place("exported")))
    run(made.run([case for case in CASES if case not in LOOPS], "second", *after, "--until-caught-up", "--drain"))
    for case in LOOPS:
        with run.meanwhile(made.run([case], "second", *after, *LIVE)) as check:
            answer_all(made, case, 1, check)
    for case in CASES:
        if case.view is not None:
            look(made, case.view, run, "--bootstrap-servers", made.servers)


def begin(made: Live, run: Commands) -> None:
    """Up to the end of the first two thirds of the input."""
    for case in CASES:
        for topic, partitions in case.partitions.items():
            made.cluster.create(topic, partitions, **BROKER_TIME if case.broker_time else {})
        for topic, partitions in case.old.items():
            made.cluster.create(topic, partitions)
    made.send(2 / 3)
    made.kill(made.run(CASES, "first", *BEFORE, "--until-caught-up", "--max-records-per-batch", "150"))
    for case in CASES:
        stay_quiet(made, case, run)
    run(made.run(CASES, "first", *BEFORE, "--until-caught-up"))


def stay_quiet(made: Live, case: Case, run: Commands) -> None:
    """Nobody writes, and the heartbeats of the command let time go on, to `quiet_ms` of the case."""
    if case.quiet_ms is None:
        return
    allowance = f"{time.time_ns() // 1_000_000 - case.quiet_ms}ms"
    topics = sorted(case.partitions)
    flags = ["--topics", ",".join(topics), "--after", "100ms", "--allowance", allowance, "--heartbeat-format", "json"]

    def quiet() -> list[str]:
        logs = {topic: made.read(topic) for topic in topics}
        return [topic for topic, log in logs.items() if len(beaten(log)) < case.partitions[topic]]

    with run.meanwhile(["heartbeat", "--bootstrap-servers", made.servers, *flags]):
        until(lambda: not quiet(), lambda: f"{quiet()}: no heartbeat in a partition", COMMAND_S)


def beaten(log: Sequence[Any]) -> set[int]:
    """The partitions that end with a heartbeat."""
    last = {r.partition: r.value for r in log}
    return {partition for partition, value in last.items() if value and b'"Heartbeat"' in value}


def look(made: Live, given: Look, run: Commands, *where: str) -> None:
    """Until it shows what is wanted: a replica follows the log."""
    wanted = given.wanted(made.read)
    shown: Any = None

    def shows() -> bool:
        nonlocal shown
        shown = given.shows(run.printed([*given.words, *where]))
        return bool(shown == wanted)

    until(shows, lambda: f"{given.words}: expected {wanted}, found {shown}", COMMAND_S)
    made.looked.append((given, shown, wanted))


def answer_all(made: Live, case: Case, share: float, check: Callable[[], None]) -> None:
    """Let time go on until all is answered and read."""
    assert case.beats is not None
    differing: list[str] = []
    for number in count():
        check()
        assert number < MOST_BEATS, f"{case.name}: not as its references say: {differing}"
        made.write(case.beats(share, number))
        differing = made.differing(case)
        if not differing:
            break
    until(lambda: made.has_read_all(case), lambda: f"{case.name}: its services have not read all", COMMAND_S)


def kill_in_loop(made: Live, case: Case) -> None:
    """Let time go on until one of its services has written what another one reads, and kill everything when a batch
    after it is written but not noted."""
    before, numbers = asked(made, case), count()

    def goes_on() -> bool:
        if made.has_read_all(case):
            assert case.beats is not None
            made.write(case.beats(2 / 3, next(numbers)))
        return asked(made, case) > before

    made.kill_when(made.run([case], "first", *BEFORE, *LIVE), goes_on)
    assert made.differing(case), f"{case.name}: all was answered before the kill"


def asked(made: Live, case: Case) -> int:
    """How many records its services have written to its inputs: those of others have no key."""
    return sum(r.key is not None for topic in case.partitions for r in made.read(topic))


def bootstrap(made: Live, service: str) -> list[str]:
    return [
        *(
            "bootstrap",
            *made.way,
            "--from",
            "kafka",
            "--out",
            str(made.place("bootstrapped", service)),
            "--service",
            service,
        ),
        *("--config", str(made.config), "--bound", f"{BOUND_MS}ms", "--bootstrap-servers", made.servers),
        *("--key-groups", "5", "--partitions", "2", "--json", "--quiet"),
        *(("--like", str(made.place("first", service))) if service in BY_CLOCK else ()),
    ]


class Life:
    """The tests. A fixture `live` has run the life."""

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_services_that_are_killed_and_rescaled_put_out_what_their_references_say(
        self, live: Live, case: Case
    ) -> None:
        want = case.expected(live.read)
        for topic, by_key in want.outputs.items():
            assert live.outputs(topic, case, live.read) == by_key, topic
            assert by_key, topic
        assert live.letters(case) == want.letters

    @pytest.mark.parametrize("service", SERVICES)
    def test_a_replay_gives_the_state_and_output_of_the_killed_run(self, live: Live, service: str) -> None:
        assert live.replayed[service]["agrees"]
        assert live.replayed[service]["output_expected"] > 0

    @pytest.mark.parametrize("service", SERVICES)
    def test_a_bootstrap_from_history_gives_the_live_state(self, live: Live, service: str) -> None:
        assert live.bootstrapped[service]["fingerprint"] == live.exported[service]["fingerprint"]
        assert live.exported[service]["entries"] > 0
