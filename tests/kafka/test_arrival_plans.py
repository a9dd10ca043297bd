"""Plans of inputs in arrival order, on a log in memory: clocks of quiet partitions, and when time is worth a batch."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moneystate.engine import plan as plans
from moneystate.engine.items import END_OF_TIME
from moneystate.errors import SetupError
from moneystate.kafka.arrivals import due_by_clock
from moneystate.kafka.broker_clock import BrokerClock
from moneystate.kafka.planner import Planner
from moneystate.kafka.source_spec import SourceSpec, load_decoder
from moneystate.kafka.starting import resolve_start
from moneystate.kafka.topics import TopicSpec, check_topics
from moneystate.runtime.job import decoder_path
from moneystate.runtime.plans import plan_of
from tests.api.services.parcels import Scanned
from tests.kafka.logs import Cluster
from tests.waiting import until

PARCELS = "tests.api.services.parcels:service"
BROKER_TIME = "LogAppendTime"
PRICES, SCANS = ("prices", 0), ("scans", 0)
FAR_MS = 1 << 61


@pytest.fixture
def cluster(memory_cluster: Cluster) -> Cluster:
    return memory_cluster


class Planned:
    """A planner of the inputs in arrival order, and the plan that it has come to."""

    def __init__(self, cluster: Cluster, folder: Path, bounded: bool = False) -> None:
        plan = plan_of(PARCELS)
        inputs = [t for t in plan.input_topics() if t.arrival]
        start = resolve_start(cluster.admin, "earliest", cluster.prefix, inputs)
        self.plan = plans.Plan("rules", start.topic_ids, start.partitions)
        spec = SourceSpec(
            cluster.bootstrap_servers, {}, cluster.prefix, "group", inputs, decoder_path(PARCELS, plan.codes, False), 8,
            2, 2, 20_000, 600_000, 2, 1_000, "rules", self.plan.to_offset(), bounded, False, 30.0, str(folder / "stop"),
            clock="parcels-clock",
        )  # fmt: skip
        self.planner = Planner(spec, load_decoder(spec.decoder), {})
        self.due = Path(spec.due_file)
        if bounded:
            self.planner.fix_target()

    def next(self) -> bool:
        """Whether there is a batch to run."""
        offset = self.plan.to_offset()
        following = self.planner.next_offset(offset)
        self.plan = plans.from_offset(following)
        return following is not offset

    def clocks(self) -> dict[plans.TopicPartition, int | None]:
        return {tp: planned.clock_ms for tp, planned in self.plan.partitions.items()}


@pytest.fixture
def topics(cluster: Cluster) -> Cluster:
    for name in ("prices", "scans", "parcels-clock"):
        cluster.create(name, message_timestamp_type=BROKER_TIME)
    return cluster


def scan(cluster: Cluster) -> None:
    value = plan_of(PARCELS).codecs[Scanned].encode(Scanned("a", 1))
    cluster.send(cluster.prefix + "scans", [value])


def test_a_plan_gives_every_partition_that_it_reads_to_its_end_the_brokers_time(
    topics: Cluster, tmp_path: Path
) -> None:
    before_ms = int(time.time() * 1000)
    scan(topics)
    planned = Planned(topics, tmp_path)
    assert planned.next()
    clocks = planned.clocks()
    assert set(clocks) == {PRICES, SCANS}
    assert len({*clocks.values()}) == 1
    clock_ms = planned.plan.clock_ms
    assert clock_ms is not None
    assert before_ms <= clock_ms <= time.time() * 1000  # the broker is on this machine
    assert {tp: p.state for tp, p in planned.plan.partitions.items()} == {PRICES: plans.EMPTY, SCANS: plans.ACTIVE}


def test_a_partition_with_an_open_transaction_has_no_clock(topics: Cluster, tmp_path: Path) -> None:
    producer = topics.producer(**{"transactional.id": topics.prefix})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topics.prefix + "scans", b"x", partition=0)
    producer.flush(30)
    planned = Planned(topics, tmp_path)
    assert planned.next()
    assert planned.clocks()[SCANS] is None
    assert planned.clocks()[PRICES] is not None
    producer.abort_transaction(30)
    topics.wait_until_stable(topics.prefix + "scans")
    assert planned.next()
    assert planned.clocks()[SCANS] is not None


def test_a_partition_that_is_not_read_to_its_end_has_no_clock(topics: Cluster, tmp_path: Path) -> None:
    for _ in range(3):
        scan(topics)
    planned = Planned(topics, tmp_path)
    planned.planner.spec = replace(planned.planner.spec, max_records=2)
    assert planned.next()
    assert planned.clocks()[SCANS] is None
    assert planned.next()
    assert planned.clocks()[SCANS] is not None


def test_while_nothing_is_due_time_goes_on_once_a_second(topics: Cluster, tmp_path: Path) -> None:
    planned = Planned(topics, tmp_path)
    assert planned.next()
    planned.due.write_text(str(FAR_MS))
    first = planned.plan.clock_ms
    assert not planned.next()
    until(planned.next, lambda: "time does not go on", 30.0)
    assert first is not None
    assert planned.plan.clock_ms is not None
    assert planned.plan.clock_ms - first >= 1_000


def test_a_batch_is_planned_as_soon_as_something_may_be_due(topics: Cluster, tmp_path: Path) -> None:
    planned = Planned(topics, tmp_path)
    assert planned.next()
    first = planned.plan.clock_ms
    assert first is not None
    planned.due.write_text(str(first + 100))
    until(planned.next, lambda: "no batch, although a timer is due", 30.0)
    second = planned.plan.clock_ms
    assert second is not None
    assert second > first + 100


def test_the_clock_makes_nothing_due_while_a_partition_without_one_holds_the_watermark_back() -> None:
    clocks = {(0, 0): None, (0, 1): 4_000, (2, 0): None}  # an open transaction, a quiet one, one in event time
    assert due_by_clock(5_000, [(0, 1)], clocks) == 5_000
    assert due_by_clock(5_000, [], clocks) == 5_000
    assert due_by_clock(5_000, [(0, 0)], clocks) == END_OF_TIME
    assert due_by_clock(5_000, [(2, 0)], clocks) == END_OF_TIME


def test_a_bounded_run_ends_at_the_time_of_its_start(topics: Cluster, tmp_path: Path) -> None:
    planned = Planned(topics, tmp_path, bounded=True)
    after_ms = int(time.time() * 1000)
    assert planned.next()
    assert (planned.plan.clock_ms or 0) <= after_ms
    assert not planned.next()


def test_the_broker_s_time_does_not_go_back_and_needs_the_brokers_timestamps(cluster: Cluster) -> None:
    right, wrong = cluster.create("clock", message_timestamp_type=BROKER_TIME), cluster.create("other")
    clock = BrokerClock(cluster.admin, cluster.bootstrap_servers, {}, right, None)
    times = [clock.time_ms() for _ in range(20)]
    assert times == sorted(times)
    assert clock.most_brokers == 1
    behind = BrokerClock(cluster.admin, cluster.bootstrap_servers, {}, right, 60_000)
    assert times[-1] - 60_000 <= behind.time_ms() < times[-1]
    with pytest.raises(SetupError, match=f"{wrong}: expected the broker's timestamps"):
        BrokerClock(cluster.admin, cluster.bootstrap_servers, {}, wrong, 0).time_ms()


def test_a_topic_with_the_producers_timestamps_is_refused_unless_the_input_has_a_bound(cluster: Cluster) -> None:
    name = cluster.create("scans")

    def check(**more: Any) -> None:
        check_topics(cluster.admin, [TopicSpec(name, 1, broker_time=True, **more)], create=True)

    check()
    with pytest.raises(
        SetupError, match=r"message\.timestamp\.type=LogAppendTime, as an input in arrival order needs it"
    ):
        check(needs_broker_time=True)
