"""Only the last of several runs of one application writes, whatever processes retry what they have begun."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moneystate.engine.marker import Claim, Decision, Marker, claim_key, decode, decode_claim, marker_key
from moneystate.engine.plan import ACTIVE, PartitionPlan, Plan
from moneystate.errors import BrokerError, InstanceError, MarkerError
from moneystate.kafka import claims, markers
from moneystate.kafka.groups import GroupProgress, other_prefixes
from moneystate.kafka.markers import MarkerLog
from moneystate.kafka.publish import SplitTransactionSink
from moneystate.kafka.sink import PartitionSink, SinkConfig
from tests.kafka.logs import Cluster
from tests.kafka.test_sink import batch, config_of, uncommitted, values, write
from tests.waiting import until

WITHIN_S = 90.0
PARTITIONS = [0, 1]


def instance(config: SinkConfig, name: str) -> SinkConfig:
    return replace(config, instance=name)


def take(config: SinkConfig, name: str) -> tuple[SinkConfig, claims.Watch]:
    mine = instance(config, name)
    return mine, claims.take(mine, f"the {name} one", PARTITIONS, 0)


def seen_by(watch: claims.Watch) -> str:
    """Who has taken over."""
    try:
        watch.check()
    except InstanceError as e:
        return str(e)
    return ""


def test_one_of_two_instances_writes_and_the_other_fences_nothing(cluster: Cluster) -> None:
    config = config_of(cluster)
    first, watch = take(config, "first")
    second, its_watch = take(config, "second")
    sinks = [PartitionSink(second, partition) for partition in PARTITIONS]
    for sink in sinks:
        sink.open(batch(0))
    for partition in PARTITIONS:  # and each attempt after it, which Spark gives to another process
        for _ in range(4):
            with pytest.raises(InstanceError, match="the second one"):
                PartitionSink(first, partition).open(batch(0))
    for sink in sinks:
        sink.write([(0, b"key", b"of the second", [])])
        sink.commit(batch(0))
    assert values(config) == [b"of the second"] * 2
    assert "the second one" in until(lambda: seen_by(watch), lambda: "no word of the second claim", WITHIN_S)
    its_watch.check()


def test_what_an_earlier_instance_has_open_is_aborted_by_the_claim_alone(cluster: Cluster) -> None:
    config = config_of(cluster)
    first, _ = take(config, "first")
    zombie = PartitionSink(first, 1)
    uncommitted(zombie, 0, "of the first")
    second, _ = take(config, "second")
    with pytest.raises(InstanceError, match="the second one"):
        zombie.commit(batch(0))
    for partition in PARTITIONS:
        assert write(PartitionSink(second, partition), 0, "of the second") is Decision.WRITE
    assert values(config) == [b"of the second"] * 2


def test_an_instance_that_was_frozen_after_its_claim_does_not_fence_its_successor(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(cluster)
    successor = PartitionSink(instance(config, "second"), 0)

    def sleeps(step: str, _: int) -> None:
        if step == "claimed":
            monkeypatch.undo()
            take(config, "second")
            successor.open(batch(0))

    monkeypatch.setattr(claims, "failpoint", sleeps)
    with pytest.raises(InstanceError, match="the second one"):
        take(config, "first")
    successor.write([(0, b"key", b"of the second", [])])
    successor.commit(batch(0))
    assert values(config) == [b"of the second"]


def prefixes_beside(config: SinkConfig) -> list[str]:
    return other_prefixes(config.bootstrap_servers, {}, config.application_id, config.inputs, config.topic_prefix)


def test_a_job_with_another_topic_prefix_is_named_and_not_fenced_again(cluster: Cluster) -> None:
    config = replace(config_of(cluster), inputs=["in"], topic_prefix=cluster.prefix)
    other = Cluster(cluster.bootstrap_servers, f"{cluster.prefix}other-")
    others = replace(config_of(other), application_id=config.application_id)
    for place in (cluster, other):
        place.create("in")
        group = GroupProgress(config.bootstrap_servers, {}, config.application_id, place.prefix)
        group.commit(Plan("rules", {"in": "id"}, {("in", 0): PartitionPlan(0, ACTIVE)}))
        group.close()
    until(lambda: prefixes_beside(config) == [other.prefix], lambda: "the group has no offsets", WITHIN_S)

    mine, _ = take(config, "first")
    sink = PartitionSink(mine, 0)
    sink.open(batch(0))
    theirs, _ = take(others, "second")
    their_sink = PartitionSink(theirs, 0)
    their_sink.open(batch(0))
    with pytest.raises(InstanceError, match=other.prefix):
        sink.commit(batch(0))
    with pytest.raises(InstanceError, match=other.prefix):
        PartitionSink(mine, 0).open(batch(0))  # a retry, anywhere
    their_sink.write([(0, b"key", b"of the other", [])])
    their_sink.commit(batch(0))
    again, _ = take(config, "third")  # a new run is not bound by what became of the one before
    assert write(PartitionSink(again, 0), 0, "v") is Decision.WRITE


def test_a_producer_that_its_own_run_has_replaced_may_be_replaced_again(cluster: Cluster) -> None:
    """A task that Spark has moved from an executor that it took for lost."""
    mine, _ = take(config_of(cluster), "first")
    lost, moved = PartitionSink(mine, 0), PartitionSink(mine, 0)
    lost.open(batch(0))
    assert write(moved, 0, "v0") is Decision.WRITE
    with pytest.raises(BrokerError):
        lost.commit(batch(0))
    assert write(PartitionSink(mine, 0), 1, "v1") is Decision.WRITE
    assert values(mine) == [b"v0", b"v1"]


def test_claims_are_beside_the_markers_and_former_output_partitions_are_claimed(cluster: Cluster) -> None:
    config = config_of(cluster)
    application = config.application_id
    assert claims.output_partitions(application, 1, []) == [0]
    former = [marker_key(application, 3), marker_key(application, 3) + b"/before", marker_key("x" + application, 7)]
    assert claims.output_partitions(application, 2, former) == [0, 1, 3]
    mine, _ = take(config, "first")
    write(PartitionSink(mine, 0), 0)
    cluster.wait_until_stable(config.commits)
    log = MarkerLog(config.bootstrap_servers, {}, config.commits)
    assert log.read() == {marker_key(application, 0): Marker("one", 1, "offset 1")}
    assert log.claims == {claim_key(application, p): Claim("first", "the first one") for p in PARTITIONS}
    log.close()


def test_the_bytes_of_a_claim_are_fixed_and_a_marker_to_programs_from_before() -> None:
    claim = Claim("i1", "host h")
    assert claim.encode() == b'{"digest":"","epoch":"","instance":"i1","nextBatch":0,"version":1,"who":"host h"}'
    assert decode_claim(claim.encode()) == claim
    assert decode(claim.encode()) == Marker("", 0, "")
    assert claim_key("app", 3) == b"app/3/claim"


def test_a_claim_that_the_broker_refuses_says_so(cluster: Cluster) -> None:
    config = replace(config_of(cluster), instance="first")
    with pytest.raises(BrokerError, match="to claim the output partitions"):
        claims.take(config, "the first one", [0, 99], 0)


def test_an_instance_that_puts_its_first_state_into_the_changelog_says_who_took_over(cluster: Cluster) -> None:
    first, _ = take(config_of(cluster), "first")
    sink = SplitTransactionSink(first, 0, batch(0), part_records=1)
    sink.begin()
    take(first, "second")
    with pytest.raises(InstanceError, match="the second one"):
        sink.count(1)


def test_final_markers_wait_for_another_application_that_has_the_topic_open(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(cluster)
    other = replace(config, application_id=f"{config.application_id}-other")
    sink = PartitionSink(config, 0)
    sink.open(batch(0))
    uncommitted(PartitionSink(other, 0), 0, "of the other")
    sink.commit(batch(0))
    monkeypatch.setattr(markers, "STALL_S", 0.5)
    with pytest.raises(BrokerError, match="transactions that hang"):
        markers.final_markers(config.bootstrap_servers, {}, config.commits, [0])
    PartitionSink(other, 0).fence()
    monkeypatch.undo()
    mine = markers.final_markers(config.bootstrap_servers, {}, config.commits, [0])
    assert mine == {marker_key(config.application_id, 0): Marker("one", 1, "offset 1")}


def test_a_claim_takes_over_for_all_output_partitions_unless_another_run_has_claimed_since(cluster: Cluster) -> None:
    config = config_of(cluster)
    first, watch = take(config, "first")
    watch.take_over(PARTITIONS, "e2")
    sink = PartitionSink(first, 0)
    begun = Marker("e2", -1, "")
    there = markers.final_markers(first.bootstrap_servers, {}, first.commits, PARTITIONS)
    assert there == {marker_key(first.application_id, p): begun for p in PARTITIONS}
    with pytest.raises(MarkerError):
        sink.open(batch(1))  # of the epoch before
    _, watch = take(config, "second")
    take(config, "third")
    with pytest.raises(InstanceError):
        watch.take_over(PARTITIONS, "e3")
    assert markers.read_markers(first.bootstrap_servers, {}, first.commits) == there
