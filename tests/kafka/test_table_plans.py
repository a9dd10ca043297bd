"""Plans of a service with tables, on a log in memory: other inputs wait until each partition has the end of a load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moneystate.engine import plan as plans
from moneystate.engine.inputs import NOT_LOADED
from moneystate.errors import SetupError
from moneystate.job.source_reading import plan_reads
from moneystate.kafka.planner import Planner
from moneystate.kafka.source_spec import SourceSpec, load_decoder
from moneystate.kafka.starting import resolve_start
from moneystate.kafka.table_loads import is_ready, unloaded
from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded
from moneystate.runtime.job import decoder_path
from moneystate.runtime.plans import plan_of
from tests.kafka.logs import Cluster

PATIENT = "tests.api.test_waiting:service"
ORDERS, FIRST, SECOND = ("orders", 0), ("prices", 0), ("prices", 1)
LOADED = Codec(TABLE_LOADED_RECORD).to_json(TableLoaded(1, 1, 0, "test", 0))
ROW = json.dumps({"cents": 1}).encode()


@pytest.fixture
def cluster(memory_cluster: Cluster) -> Cluster:
    return memory_cluster


class Planned:
    """A planner, and the plan that it has come to."""

    def __init__(self, cluster: Cluster, folder: Path, bounded: bool = False) -> None:
        plan = plan_of(PATIENT)
        self.inputs = plan.input_topics()
        start = resolve_start(cluster.admin, "earliest", cluster.prefix, self.inputs)
        self.plan = plans.Plan("rules", start.topic_ids, start.partitions)
        decoder = decoder_path(PATIENT, plan.codes, False)
        self.spec = SourceSpec(
            cluster.bootstrap_servers, {}, cluster.prefix, "group", self.inputs, decoder, 8, 2, 2, 20_000, 600_000, 2,
            1_000, "rules", self.plan.to_offset(), bounded, False, 30.0, str(folder / "stop"), clock="patient-clock",
            formats={"prices": "json"},
        )  # fmt: skip
        self.planner = Planner(self.spec, load_decoder(self.spec.decoder), {})
        self.before = self.plan
        if bounded:
            self.planner.fix_target()

    def next(self) -> bool:
        """Whether there is a batch to run."""
        offset = self.plan.to_offset()
        following = self.planner.next_offset(offset)
        self.before, self.plan = self.plan, plans.from_offset(following)
        return following is not offset

    def ends(self) -> dict[plans.TopicPartition, int]:
        return {tp: planned.end for tp, planned in self.plan.partitions.items()}

    def first_loads(self) -> dict[plans.TopicPartition, int]:
        """As the tasks of the last batch get them."""
        tasks = plan_reads(self.before, self.plan, self.spec)
        return {(r[0], r[1]): r[6] for task in tasks for r in task.ranges}


@pytest.fixture
def topics(cluster: Cluster) -> Cluster:
    for name, partitions in (("orders", 1), ("prices", 2), ("patient-clock", 1)):
        cluster.create(name, partitions, message_timestamp_type="LogAppendTime")
    cluster.send(cluster.prefix + "orders", [b"an order"])
    cluster.send(cluster.prefix + "prices", [ROW, ROW], 0, key=b"a")
    return cluster


def test_other_inputs_are_read_once_each_partition_has_the_end_of_a_load(topics: Cluster, tmp_path: Path) -> None:
    planned, prices = Planned(topics, tmp_path), topics.prefix + "prices"
    assert planned.next()
    assert planned.ends() == {ORDERS: 0, FIRST: 2, SECOND: 0}
    assert planned.first_loads() == {ORDERS: 0, FIRST: NOT_LOADED, SECOND: NOT_LOADED}
    topics.send(prices, [LOADED], 0)
    assert planned.next()
    assert planned.ends() == {ORDERS: 0, FIRST: 3, SECOND: 0}
    assert planned.first_loads() == {ORDERS: 0, FIRST: 2, SECOND: NOT_LOADED}
    assert list(unloaded(planned.plan, planned.inputs)) == [SECOND]
    assert planned.plan.partitions[SECOND].clock_ms is None, "the watermark waits"
    topics.send(prices, [LOADED], 1)
    topics.send(prices, [ROW], 1, key=b"b")
    assert planned.next()
    assert planned.ends() == {ORDERS: 0, FIRST: 3, SECOND: 2}
    assert is_ready(planned.plan, planned.inputs)
    assert planned.next()
    assert planned.ends() == {ORDERS: 1, FIRST: 3, SECOND: 2}
    assert planned.first_loads() == {ORDERS: 0, FIRST: 2, SECOND: 0}
    assert planned.plan.to_offset()["version"] == 3


def test_another_run_finds_the_ends_of_loads_again(topics: Cluster, tmp_path: Path) -> None:
    for partition in (0, 1):
        topics.send(topics.prefix + "prices", [LOADED], partition)
    planned = Planned(topics, tmp_path)
    assert planned.next()
    known = planned.plan
    again = Planned(topics, tmp_path)
    without = {tp: plans.PartitionPlan(p.end, p.state) for tp, p in known.partitions.items()}
    again.plan = known.with_partitions(without)  # as a savepoint has it
    assert again.next()
    assert {tp: p.loaded for tp, p in again.plan.partitions.items()} == {ORDERS: None, FIRST: 2, SECOND: 0}


def test_a_bounded_run_without_a_load_says_so(topics: Cluster, tmp_path: Path) -> None:
    planned = Planned(topics, tmp_path, bounded=True)
    assert planned.next()
    with pytest.raises(SetupError, match=r"prices/0, prices/1: expected the end of a table's first load"):
        planned.next()
