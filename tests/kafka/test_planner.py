"""The planner on a log in memory: what the next batch reads, and what it refuses to go on with."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moneystate.engine import plan as plans
from moneystate.engine.processor import InputTopic
from moneystate.errors import ConfigError, MoneystateError, RetentionError, SetupError
from moneystate.job.startup import check_logs
from moneystate.kafka import planner as planner_module
from moneystate.kafka.input_topics import input_topics
from moneystate.kafka.planner import Planner
from moneystate.kafka.put_out import MOST_BYTES, PutOut
from moneystate.kafka.source_spec import SourceSpec
from moneystate.kafka.starting import resolve_start
from tests.enrichment import topics
from tests.enrichment.jobs import DECODER
from tests.kafka.logs import Cluster
from tests.reference.builder import START_MS
from tests.reference.model import SESSION, USER, WALLET, encode
from tests.waiting import until

INPUTS = [t for t in topics.PLAN.input_topics() if t.ordered]
NAMES = [t.name for t in INPUTS]


@pytest.fixture
def cluster(memory_cluster: Cluster) -> Cluster:
    return memory_cluster


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a topic is noticed by the next plan, and not some seconds later."""
    monkeypatch.setattr(planner_module, "METADATA_EVERY_S", 0.0)


def beats(times_ms: list[int]) -> list[bytes]:
    return [encode("Heartbeat", {"processedAt": START_MS + time}) for time in times_ms]


class Planned:
    """A planner, and the offset it has come to."""

    def __init__(self, cluster: Cluster, folder: Path, inputs: list[InputTopic] = INPUTS, **more: Any) -> None:
        self.cluster = cluster
        start = resolve_start(cluster.admin, "earliest", cluster.prefix, inputs)
        self.offset = plans.Plan("rules", start.topic_ids, start.partitions).to_offset()
        spec = SourceSpec(
            cluster.bootstrap_servers, {}, cluster.prefix, "group", inputs, "", 8, 2, 2, 20_000, 600_000, 2, 1_000,
            "rules", self.offset, False, False, 30.0, str(folder / "stop"),
        )  # fmt: skip
        self.spec = replace(spec, **more)
        self.planner = Planner(self.spec, DECODER, {})
        if self.spec.bounded:
            self.planner.fix_target()

    def next(self) -> dict[str, int]:
        """Plan a batch: the records of each partition that has any."""
        before = self.plan
        self.offset = self.planner.next_offset(self.offset)
        read = {tp: p.end - before.partitions.get(tp, p).end for tp, p in self.plan.partitions.items()}
        return {f"{topic}/{number}": n for (topic, number), n in read.items() if n}

    @property
    def plan(self) -> plans.Plan:
        return plans.from_offset(self.offset)


@pytest.fixture
def inputs(cluster: Cluster) -> Cluster:
    for name in NAMES:
        cluster.create(name)
    return cluster


def test_nothing_new_is_the_same_offset_and_news_is_all_read(inputs: Cluster, tmp_path: Path) -> None:
    planned = Planned(inputs, tmp_path)
    assert planned.next() == {}
    inputs.send(inputs.prefix + WALLET, beats([0, 1, 2]))
    inputs.send(inputs.prefix + USER, beats([0]))
    assert planned.next() == {f"{WALLET}/0": 3, f"{USER}/0": 1}
    assert planned.next() == {}
    assert {tp: p.state for tp, p in planned.plan.partitions.items()} == {
        (WALLET, 0): plans.ACTIVE, (USER, 0): plans.ACTIVE, (SESSION, 0): plans.EMPTY,
    }  # fmt: skip


def test_a_dense_topic_waits_for_a_sparse_one(inputs: Cluster, tmp_path: Path) -> None:
    """Wallet events are ten times as dense: each batch ends at about the same event time in both topics."""
    inputs.send(inputs.prefix + WALLET, beats([n * 10 for n in range(5_000)]))
    inputs.send(inputs.prefix + USER, beats([n * 100 for n in range(500)]))
    planned = Planned(inputs, tmp_path, max_records=1_100)
    for _ in range(4):
        read = planned.next()
        assert sum(read.values()) == 1_100
        ends = {topic: p.end for (topic, _), p in planned.plan.partitions.items()}
        assert abs(ends[WALLET] * 10 - ends[USER] * 100) <= 1_000  # ms, of 10,000 in a batch
    assert planned.next() == {f"{WALLET}/0": 1_000, f"{USER}/0": 100}


def test_a_topic_that_is_ahead_waits_until_the_others_have_come_up(inputs: Cluster, tmp_path: Path) -> None:
    inputs.send(inputs.prefix + WALLET, beats(list(range(3_000))))
    inputs.send(inputs.prefix + USER, beats([86_400_000 + n for n in range(500)]))
    planned = Planned(inputs, tmp_path, max_records=1_000)
    assert [planned.next() for _ in range(3)] == [{f"{WALLET}/0": 1_000}] * 3
    assert planned.next() == {f"{USER}/0": 500}


def test_a_peek_decodes_one_record_of_a_partition_whatever_is_fetched_with_it(
    inputs: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a record of the second topic is waited for, those of the first go on to arrive."""
    for topic in (WALLET, USER):
        inputs.send(inputs.prefix + topic, beats(list(range(3_000))))
    planner = Planned(inputs, tmp_path).planner
    decode, decoded = planner._event_time, list[str]()

    def noted(topic: str, message: Any) -> int | None:
        decoded.append(topic)
        return decode(topic, message)

    monkeypatch.setattr(planner, "_event_time", noted)
    peeked = planner.peek({(WALLET, 0): 0, (USER, 0): 10})
    assert peeked == {(WALLET, 0): (0, START_MS), (USER, 0): (10, START_MS + 10)}
    assert sorted(decoded) == [USER, WALLET]


def test_records_that_do_not_decode_do_not_hold_planning_up(inputs: Cluster, tmp_path: Path) -> None:
    inputs.send(inputs.prefix + WALLET, [b"junk"] * 1_500)
    inputs.send(inputs.prefix + USER, beats([0] * 1_500))
    planned = Planned(inputs, tmp_path, max_records=1_000)
    batches = [planned.next() for _ in range(3)]
    assert all(sum(batch.values()) == 1_000 for batch in batches)
    assert planned.next() == {}


def test_a_batch_of_large_records_is_bounded_in_bytes(
    inputs: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "BATCH_BYTES", 1_000_000)
    monkeypatch.setattr(planner_module, "SIZES_EVERY_S", 0.0)
    large = encode(
        "KindOfWalletEvent", {"id": "e", "userId": "u", "processedAt": START_MS, "somethingInteresting": "x" * 99_900}
    )
    inputs.send(inputs.prefix + WALLET, [large] * 40)
    planned = Planned(inputs, tmp_path)
    assert [planned.next() for _ in range(4)] == [{f"{WALLET}/0": 10}] * 4
    inputs.send(inputs.prefix + WALLET, beats([0] * 900))
    assert planned.next() == {f"{WALLET}/0": 900}


def test_a_batch_is_cut_by_what_the_batches_before_it_have_put_out(inputs: Cluster, tmp_path: Path) -> None:
    inputs.send(inputs.prefix + WALLET, beats(list(range(900))))
    planned = Planned(inputs, tmp_path, max_records=600)
    put_out = PutOut(Path(planned.spec.put_out_file))
    assert planned.next() == {f"{WALLET}/0": 600}
    put_out.add(600, 6 * MOST_BYTES)
    assert planned.next() == {f"{WALLET}/0": 100}
    put_out.add(300, 0)
    assert planned.next() == {f"{WALLET}/0": 150}
    put_out.add(100, MOST_BYTES // 100_000)
    assert planned.next() == {f"{WALLET}/0": 50}


def test_a_bounded_run_reads_what_was_there_at_its_start_and_then_drains(inputs: Cluster, tmp_path: Path) -> None:
    inputs.send(inputs.prefix + WALLET, beats(list(range(10))))
    planned = Planned(inputs, tmp_path, bounded=True, drain=True)
    inputs.send(inputs.prefix + WALLET, beats(list(range(10))))
    batches = [(planned.next(), planned.plan.drain) for _ in range(2)]
    assert batches == [({f"{WALLET}/0": 10}, False), ({}, True)]
    last = planned.offset
    planned.next()
    assert planned.offset == last


def test_a_drain_up_to_a_time_is_continued_up_to_a_later_one(inputs: Cluster, tmp_path: Path) -> None:
    planned = Planned(inputs, tmp_path, bounded=True, drain=True, drain_until_ms=7)
    planned.next()
    assert (planned.plan.drain, planned.plan.drain_until_ms) == (True, 7)
    for until_ms, after in ((None, 7), (6, 7), (7, 7), (8, 8)):
        planned.planner.spec = replace(planned.spec, drain_until_ms=until_ms)
        planned.next()
        assert (planned.plan.drain, planned.plan.drain_until_ms) == (True, after)
    last = planned.offset
    inputs.send(inputs.prefix + WALLET, beats([0]))
    planned.next()
    assert planned.offset == last, "it reads nothing new"


def test_an_open_transaction_ends_what_can_be_planned(inputs: Cluster, tmp_path: Path) -> None:
    topic = inputs.prefix + WALLET
    inputs.send(topic, beats([0]))
    producer = inputs.producer(**{"transactional.id": inputs.prefix})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, beats([1])[0], partition=0)
    producer.flush(30)
    inputs.send(topic, beats([2]))
    planned = Planned(inputs, tmp_path)
    assert planned.next() == {f"{WALLET}/0": 1}
    producer.commit_transaction(30)
    inputs.wait_until_stable(topic)
    assert planned.next() == {f"{WALLET}/0": 3}  # two records and a marker


def test_after_the_stop_file_nothing_is_planned_and_the_planner_says_that_it_has_seen_it(
    inputs: Cluster, tmp_path: Path
) -> None:
    inputs.send(inputs.prefix + WALLET, beats([0]))
    planned = Planned(inputs, tmp_path)
    (tmp_path / "stop").touch()
    assert planned.next() == {}
    assert (tmp_path / "stop.seen").exists()


def test_a_partition_without_news_is_idle_in_a_live_run_until_it_speaks(inputs: Cluster, tmp_path: Path) -> None:
    planned = Planned(inputs, tmp_path, idle_timeout_s=0.0)
    inputs.send(inputs.prefix + WALLET, beats([0]))
    planned.next()
    planned.next()
    assert {p.state for p in planned.plan.partitions.values()} == {plans.IDLE}
    inputs.send(inputs.prefix + WALLET, beats([1]))
    planned.next()
    assert planned.plan.partitions[WALLET, 0].state == plans.ACTIVE


def test_a_partition_with_an_open_transaction_is_not_idle(inputs: Cluster, tmp_path: Path) -> None:
    """Its records are in the log and can be read as soon as it is committed: they may be behind the others'."""
    planned = Planned(inputs, tmp_path, idle_timeout_s=0.0)
    inputs.send(inputs.prefix + USER, beats([0]))
    planned.next()
    producer = inputs.producer(**{"transactional.id": inputs.prefix})
    producer.init_transactions(30)

    def begin() -> None:
        producer.begin_transaction()
        producer.produce(inputs.prefix + WALLET, beats([1])[0], partition=0)
        producer.flush(30)

    begin()
    planned.next()
    assert states(planned) == {WALLET: plans.EMPTY, USER: plans.IDLE, SESSION: plans.IDLE}
    producer.commit_transaction(30)
    inputs.wait_until_stable(inputs.prefix + WALLET)
    planned.next()
    planned.next()
    assert states(planned)[WALLET] == plans.IDLE
    begin()
    planned.next()
    assert states(planned) == {WALLET: plans.ACTIVE, USER: plans.IDLE, SESSION: plans.IDLE}
    producer.abort_transaction(30)


def states(planned: Planned) -> dict[str, str]:
    return {topic: p.state for (topic, _), p in planned.plan.partitions.items()}


def test_a_pause_of_the_planner_makes_no_partition_idle(
    inputs: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Planned(inputs, tmp_path)
    planned.next()
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 3_600)
    planned.next()
    assert plans.IDLE not in states(planned).values()


def test_a_partition_whose_records_wait_for_their_turn_is_not_idle(inputs: Cluster, tmp_path: Path) -> None:
    inputs.send(inputs.prefix + WALLET, beats(list(range(3_000))))
    inputs.send(inputs.prefix + USER, beats([86_400_000 + n for n in range(500)]))
    planned = Planned(inputs, tmp_path, max_records=1_000, idle_timeout_s=0.0)
    for _ in range(2):
        assert planned.next() == {f"{WALLET}/0": 1_000}
    states = {topic: p.state for (topic, _), p in planned.plan.partitions.items()}
    assert states == {WALLET: plans.ACTIVE, USER: plans.EMPTY, SESSION: plans.IDLE}


def test_a_partition_that_is_added_is_read_from_its_beginning(inputs: Cluster, tmp_path: Path) -> None:
    planned = Planned(inputs, tmp_path)
    inputs.send(inputs.prefix + WALLET, beats([0]))
    assert planned.next() == {f"{WALLET}/0": 1}
    inputs.grow({WALLET: 2})
    inputs.send(inputs.prefix + WALLET, beats([0, 1]), partition=1)
    planned.next()
    assert planned.plan.partitions[WALLET, 1] == plans.PartitionPlan(0, plans.EMPTY)
    assert planned.next() == {f"{WALLET}/1": 2}


def test_an_input_less_than_in_the_run_before_is_no_longer_read(inputs: Cluster, tmp_path: Path) -> None:
    """As with `--session-lookup none` after `topic`: a change of the rules that section 2 of docs/model.md allows."""
    planned = Planned(inputs, tmp_path)
    planned.next()
    fewer = replace(planned.spec, inputs=[t for t in INPUTS if t.name != SESSION])
    planned.planner = Planner(fewer, DECODER, {})
    inputs.send(inputs.prefix + WALLET, beats([0]))
    assert planned.next() == {f"{WALLET}/0": 1}


def test_a_log_that_ends_before_what_was_read_of_it_is_refused(inputs: Cluster, tmp_path: Path) -> None:
    """Records were lost: their offsets will be given to others, which must not be passed over."""
    inputs.send(inputs.prefix + WALLET, beats([0]))
    planned = Planned(inputs, tmp_path)
    ahead = {**planned.plan.partitions, (WALLET, 0): plans.PartitionPlan(5, plans.ACTIVE)}
    planned.offset = planned.plan.with_partitions(ahead).to_offset()
    with pytest.raises(MoneystateError):
        planned.next()


def test_a_topic_made_anew_while_the_job_runs_is_refused(inputs: Cluster, tmp_path: Path) -> None:
    inputs.send(inputs.prefix + WALLET, beats([0, 1, 2]))
    planned = Planned(inputs, tmp_path)
    planned.next()
    inputs.delete(inputs.prefix + WALLET)
    inputs.create(WALLET)
    with pytest.raises(SetupError):
        planned.next()


def test_a_topic_made_anew_between_two_runs_is_refused(inputs: Cluster, tmp_path: Path) -> None:
    """The checkpoint has the id of the topic that it has read from; the new one's records are others."""
    inputs.send(inputs.prefix + WALLET, beats([0, 1, 2]))
    planned = Planned(inputs, tmp_path)
    planned.next()
    inputs.delete(inputs.prefix + WALLET)
    inputs.create(WALLET)
    inputs.send(inputs.prefix + WALLET, beats([10, 11]))
    planned.planner = Planner(planned.spec, DECODER, {})
    with pytest.raises(MoneystateError):
        planned.next()


# Where a new checkpoint begins


def test_a_start_by_time_takes_the_first_records_of_that_time_and_the_end_where_there_is_none(inputs: Cluster) -> None:
    for n in range(5):
        inputs.send(inputs.prefix + WALLET, beats([n]), timestamp=START_MS + n * 1000)
    inputs.send(inputs.prefix + USER, beats([0]), timestamp=START_MS)
    time_text = datetime.fromtimestamp((START_MS + 2000) / 1000, UTC).isoformat()
    start = resolve_start(inputs.admin, time_text, inputs.prefix, INPUTS)
    assert {tp: p.end for tp, p in start.partitions.items()} == {(WALLET, 0): 2, (USER, 0): 1, (SESSION, 0): 0}


def test_earliest_is_where_the_log_begins_now(inputs: Cluster) -> None:
    inputs.send(inputs.prefix + WALLET, beats([0, 1, 2]))
    inputs.delete_before(inputs.prefix + WALLET, 2)
    start = resolve_start(inputs.admin, "earliest", inputs.prefix, INPUTS)
    assert start.partitions[WALLET, 0] == plans.PartitionPlan(2, plans.EMPTY)


def test_a_start_from_a_file_is_checked_against_the_logs(inputs: Cluster, tmp_path: Path) -> None:
    inputs.send(inputs.prefix + WALLET, beats([0, 1, 2]))
    inputs.delete_before(inputs.prefix + WALLET, 1)

    def start(content: object) -> dict[plans.TopicPartition, int]:
        file = tmp_path / "offsets.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        resolved = resolve_start(inputs.admin, str(file), inputs.prefix, INPUTS)
        return {tp: p.end for tp, p in resolved.partitions.items()}

    assert start({WALLET: {"0": 2}}) == {(WALLET, 0): 2, (USER, 0): 0, (SESSION, 0): 0}
    assert start({})[WALLET, 0] == 1
    for gone in (0, 4):
        with pytest.raises(RetentionError):
            start({WALLET: {"0": gone}})
    for bad in ({"other": {"0": 1}}, {WALLET: {"7": 1}}, {WALLET: {"0": "x"}}, {WALLET: 3}, [1], "{"):
        with pytest.raises(ConfigError):
            start(bad)


@pytest.mark.parametrize("text", ["latest", "2026-01-31T00:00:00", "no/such/file.json"])
def test_a_start_that_is_neither_time_nor_file_is_refused(inputs: Cluster, text: str) -> None:
    with pytest.raises(ConfigError):
        resolve_start(inputs.admin, text, inputs.prefix, INPUTS)


TIMED = [t._replace(timed=t.name == WALLET) for t in INPUTS]


def test_a_partition_of_a_timed_stream_is_never_idle(inputs: Cluster, tmp_path: Path) -> None:
    planned = Planned(inputs, tmp_path, inputs=TIMED, idle_timeout_s=0.0)
    inputs.send(inputs.prefix + WALLET, beats([0]))
    planned.next()
    planned.next()
    states = {topic: p.state for (topic, _), p in planned.plan.partitions.items()}
    assert states == {WALLET: plans.ACTIVE, USER: plans.IDLE, SESSION: plans.IDLE}


def test_a_timed_stream_that_gets_partitions_is_refused(inputs: Cluster, tmp_path: Path) -> None:
    planned = Planned(inputs, tmp_path, inputs=TIMED)
    inputs.grow({WALLET: 2})
    inputs.send(inputs.prefix + WALLET, beats([0]), partition=1)
    with pytest.raises(SetupError, match=f"{WALLET}, partition 1: expected the partitions .*, this one is new"):
        planned.next()


PATTERN = InputTopic(9, "tenant-*", True, 3)


def test_topics_of_a_pattern_are_found_when_they_are_created(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create("tenant-a", 2)
    cluster.create("other-tenant-a")
    planned = Planned(cluster, tmp_path, [PATTERN])
    cluster.send(cluster.prefix + "tenant-a", beats([0, 1]), partition=1)
    assert planned.next() == {"tenant-a/1": 2}
    cluster.create("tenant-b")
    cluster.send(cluster.prefix + "tenant-b", beats([0]))
    assert planned.next() == {}  # its start is recorded first
    assert {*planned.plan.topic_ids} == {"tenant-a", "tenant-b"}
    assert planned.next() == {"tenant-b/0": 1}


def test_a_topic_in_arrival_order_that_is_gone_holds_nothing_back(cluster: Cluster, tmp_path: Path) -> None:
    pattern = PATTERN._replace(arrival=True)
    for name in ("tenant-a", "tenant-b", "clock"):
        cluster.create(name, message_timestamp_type="LogAppendTime")
        cluster.send(cluster.prefix + name, beats([0]))
    planned = Planned(cluster, tmp_path, [pattern], clock="clock")
    planned.next()
    cluster.delete(cluster.prefix + "tenant-b")
    until(lambda: "tenant-b" not in input_topics(cluster.admin, [pattern], cluster.prefix), lambda: "still there", 90)
    cluster.send(cluster.prefix + "tenant-a", beats([1]))
    planned.next()
    assert planned.plan.partitions["tenant-b", 0] == plans.PartitionPlan(1, plans.IDLE)
    assert planned.plan.partitions["tenant-a", 0].clock_ms is not None
    cluster.create("tenant-c")
    with pytest.raises(SetupError, match=r"tenant-c: expected message\.timestamp\.type=LogAppendTime"):
        planned.next()


def test_a_topic_of_a_pattern_may_go_but_not_come_back_as_another(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("tenant-a", "tenant-b"):
        cluster.create(name)
        cluster.send(cluster.prefix + name, beats([0]))
    planned = Planned(cluster, tmp_path, [PATTERN])
    assert planned.next() == {"tenant-a/0": 1, "tenant-b/0": 1}
    cluster.delete(cluster.prefix + "tenant-b")
    cluster.send(cluster.prefix + "tenant-a", beats([1]))
    until(lambda: "tenant-b" not in input_topics(cluster.admin, [PATTERN], cluster.prefix), lambda: "still there", 90)
    assert planned.next() == {"tenant-a/0": 1}
    assert planned.plan.partitions["tenant-b", 0] == plans.PartitionPlan(1, plans.ACTIVE)
    check_logs(cluster.admin, planned.plan, planned.plan, cluster.prefix, [PATTERN])
    further = planned.plan.with_partitions({("tenant-b", 0): plans.PartitionPlan(2, plans.ACTIVE)})
    with pytest.raises(SetupError):
        check_logs(cluster.admin, planned.plan, further, cluster.prefix, [PATTERN])
    cluster.create("tenant-b")
    with pytest.raises(SetupError):
        planned.next()
    with pytest.raises(SetupError):
        check_logs(cluster.admin, planned.plan, planned.plan, cluster.prefix, [PATTERN])
