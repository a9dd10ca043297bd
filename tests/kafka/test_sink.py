"""`PartitionSink` on a real broker: fencing, markers, and what a crash leaves."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from moneystate.engine.marker import Decision, Marker, marker_key
from moneystate.engine.place import RECORD_TIME, time_bytes
from moneystate.errors import BrokerError, MarkerError
from moneystate.kafka import claims
from moneystate.kafka.client import new_client
from moneystate.kafka.markers import read_markers
from moneystate.kafka.sink import BatchId, PartitionSink, SinkConfig
from tests.kafka.logs import Cluster, wait_until_stable
from tests.reference.kafka_log import read_log, read_values

OUT, COMMITS, CHANGES = "out", "commits", "changes"


def config_of(cluster: Cluster, partitions: int = 1) -> SinkConfig:
    return SinkConfig(
        cluster.bootstrap_servers,
        {},
        cluster.prefix + "app",
        [cluster.create(OUT, partitions)],
        cluster.create(COMMITS, 2, cleanup_policy="compact"),
        cluster.create(CHANGES, 2, cleanup_policy="compact"),
        changelog_partitions=2,
        key_groups=4,
        reader_rules={"ttl_ms": 5},
    )


def batch(number: int, epoch: str = "one") -> BatchId:
    return BatchId(epoch, number, f"offset {number}", f"offset {number + 1}")


def write(sink: PartitionSink, number: int, *values: str, epoch: str = "one") -> Decision:
    """A whole batch. Its values go out under one key."""
    decision = sink.open(batch(number, epoch))
    if decision is Decision.WRITE:
        sink.write([(0, b"key", value.encode(), []) for value in values])
        sink.commit(batch(number, epoch))
    return decision


def uncommitted(sink: PartitionSink, number: int, *values: str) -> None:
    """A batch with its marker up to just before the commit: all of it is with the broker."""
    sink.open(batch(number))
    sink.write([(0, b"key", value.encode(), []) for value in values])
    assert sink.producer is not None
    marker = Marker("one", number + 1, batch(number).end)
    key = marker_key(sink.config.application_id, sink.partition)
    sink.producer.produce(sink.config.commits, marker.encode(), key, partition=sink.partition)
    assert sink.producer.flush(30) == 0


def values(config: SinkConfig, stable: bool = True) -> list[bytes | None]:
    """What a read_committed reader sees; `stable`: once no transaction is open any more."""
    if stable:
        wait_until_stable(new_client(AdminClient, {"bootstrap.servers": config.bootstrap_servers}), config.streams)
    return read_values(config.bootstrap_servers, config.streams[0])


def test_batches_follow_one_another_and_a_written_one_is_not_written_again(cluster: Cluster) -> None:
    config = config_of(cluster)
    sink = PartitionSink(config, 0)
    assert [write(sink, n, f"v{n}") for n in range(3)] == [Decision.WRITE] * 3
    assert write(PartitionSink(config, 0), 2, "v2") is Decision.ALREADY_WRITTEN
    assert write(sink, 2, "v2") is Decision.ALREADY_WRITTEN
    assert write(sink, 3, "v3") is Decision.WRITE
    assert values(config) == [b"v0", b"v1", b"v2", b"v3"]


def test_what_was_produced_and_not_committed_is_never_seen(cluster: Cluster) -> None:
    config = config_of(cluster)
    write(PartitionSink(config, 0), 0, "v0")
    crashed = PartitionSink(config, 0)
    uncommitted(crashed, 1, "lost")
    assert values(config, stable=False) == [b"v0"]
    assert write(PartitionSink(config, 0), 1, "v1") is Decision.WRITE
    assert values(config) == [b"v0", b"v1"]
    everything = read_log(config.bootstrap_servers, [config.streams[0]], isolation="read_uncommitted")[0]
    assert b"lost" in [record.value for record in everything]


def test_an_output_that_says_its_time_has_it_as_the_kafka_timestamp(cluster: Cluster) -> None:
    config = replace(config_of(cluster), dated=[0])
    sink = PartitionSink(config, 0)
    assert sink.open(batch(0)) is Decision.WRITE
    lineage = ("lineage", b"from")
    for name, time_ms in (("then", 1_000_000), ("before 1970", -5)):
        sink.write([(0, name.encode(), b"v", [lineage, (RECORD_TIME, time_bytes(time_ms))])])
    sink.write([(0, b"now", b"v", [lineage]), (0, b"gone", None, [])])
    sink.commit(batch(0))
    values(config)
    log = {r.key: r for r in read_log(config.bootstrap_servers, [config.streams[0]])[0]}
    assert [log[key].timestamp_ms for key in (b"then", b"before 1970")] == [1_000_000, 1]
    year_2020_ms = 1_577_836_800_000
    assert all((log[key].timestamp_ms or 0) > year_2020_ms for key in (b"now", b"gone"))
    assert [log[key].headers for key in (b"then", b"now", b"gone")] == [(lineage,), (lineage,), ()]


def test_of_two_sinks_the_later_one_fences_the_earlier(cluster: Cluster) -> None:
    config = config_of(cluster)
    first, second = PartitionSink(config, 0), PartitionSink(config, 0)
    first.open(batch(0))
    first.write([(0, b"key", b"of the first", [])])
    assert write(second, 0, "of the second") is Decision.WRITE
    with pytest.raises(BrokerError):
        first.commit(batch(0))
    assert values(config) == [b"of the second"]


def test_workers_that_take_turns_go_on_where_the_other_ended(cluster: Cluster) -> None:
    """A kept producer is trusted only where it wrote the batch before; else it may be fenced, and is replaced."""
    config = config_of(cluster)
    one, other = PartitionSink(config, 0), PartitionSink(config, 0)
    for number, sink in enumerate([one, other, other, one, other, one, one]):
        assert write(sink, number, f"v{number}") is Decision.WRITE
    assert values(config) == [f"v{n}".encode() for n in range(7)]


def test_a_zombie_that_still_trusts_its_marker_is_fenced_and_never_starts_anew(cluster: Cluster) -> None:
    config = config_of(cluster)
    zombie, successor = PartitionSink(config, 0), PartitionSink(config, 0)
    write(zombie, 0, "v0")
    write(successor, 1, "v1")
    with pytest.raises(BrokerError):
        write(zombie, 1, "v1 again")
    assert values(config) == [b"v0", b"v1"]


def test_other_markers_than_those_of_this_place_are_refused(cluster: Cluster) -> None:
    config = config_of(cluster)
    writer = PartitionSink(config, 0)
    for number in range(4):
        write(writer, number, f"v{number}")
    for wrong in (
        batch(2),  # rolled back
        batch(5),  # the output was rolled back
        batch(4, epoch="two"),
        BatchId("one", 4, "elsewhere", "offset 5"),
        BatchId("one", 3, "offset 3", "elsewhere"),
    ):
        with pytest.raises(MarkerError):
            PartitionSink(config, 0).open(wrong)
    with pytest.raises(MarkerError):
        PartitionSink(config, 1).open(batch(1))  # no marker at all
    assert len(values(config)) == 4


def test_markers_of_all_output_partitions_are_in_the_commits_topic(cluster: Cluster) -> None:
    config = config_of(cluster)
    for partition in range(2):
        write(PartitionSink(config, partition), 0)
    cluster.wait_until_stable(config.commits)
    assert read_markers(config.bootstrap_servers, {}, config.commits) == {
        marker_key(config.application_id, partition): Marker("one", 1, "offset 1") for partition in range(2)
    }


def test_an_open_transaction_of_another_output_partition_does_not_hide_a_written_marker(cluster: Cluster) -> None:
    """The job dies while partition 1 has its marker in an open transaction, and after partition 0 has committed.

    A read_committed reader sees nothing behind the open transaction; each has its own partition of the topic.
    """
    config = config_of(cluster)
    uncommitted(PartitionSink(config, 1), 0, "of 1")
    write(PartitionSink(config, 0), 0, "of 0")
    # the job starts again, and partition 0 comes first
    assert write(PartitionSink(config, 0), 0, "of 0") is Decision.ALREADY_WRITTEN
    assert write(PartitionSink(config, 1), 0, "of 1") is Decision.WRITE
    assert values(config) == [b"of 0", b"of 1"]


def test_a_marker_that_does_not_decode_and_a_commits_topic_too_small_are_refused(cluster: Cluster) -> None:
    config = config_of(cluster)
    with pytest.raises(MarkerError):
        PartitionSink(config, 2).open(batch(0))
    cluster.send(config.commits, [b"{}"], key=marker_key(config.application_id, 0))
    with pytest.raises(MarkerError):
        read_markers(config.bootstrap_servers, {}, config.commits)


def test_a_record_that_is_too_large_is_an_error_of_ours(cluster: Cluster) -> None:
    sink = PartitionSink(config_of(cluster), 0)
    sink.open(batch(0))
    with pytest.raises(BrokerError):
        sink.write([(0, b"key", bytes(9 * 1024 * 1024), [])])


def java_partition(key: bytes, partitions: int) -> int:
    """`Utils.toPositive(Utils.murmur2(key)) % partitions` of Kafka's Java clients."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * m & mask
        k ^= k >> 24
        h = (h * m & mask) ^ (k * m & mask)
    rest = key[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return (h & 0x7FFFFFFF) % partitions


def test_output_is_partitioned_as_java_clients_do_it(cluster: Cluster) -> None:
    # These cases are those of Kafka's own UtilsTest.
    assert [java_partition(key, 1 << 31) for key in (b"21", b"foobar", b"abc")] == [
        n & 0x7FFFFFFF for n in (-973932308, -790332482, 479470107)
    ]
    config = config_of(cluster, partitions=7)
    sink = PartitionSink(config, 0)
    keys = [f"user {zlib.crc32(bytes([n]))}"[: 5 + n % 9].encode() + bytes([65 + n]) for n in range(60)]
    sink.open(batch(0))
    sink.write([(0, key, b"v", []) for key in keys])
    sink.commit(batch(0))
    cluster.wait_until_stable(*config.streams)
    records, _ = read_log(config.bootstrap_servers, config.streams)
    assert {r.key: r.partition for r in records} == {key: java_partition(key, 7) for key in keys}


def test_a_key_groups_changes_keep_to_one_changelog_partition_with_an_end_record_in_each(cluster: Cluster) -> None:
    config = config_of(cluster)
    assert config.changelog is not None
    sink = PartitionSink(config, 0)
    sink.open(batch(0))
    for key_group in (0, 1, 2):
        sink.write_changes(key_group, [(f"u{key_group}".encode(), b"state")])
    sink.end_changelog(batch(0), 123, [0, 1, 2])
    sink.commit(batch(0))
    cluster.wait_until_stable(config.changelog)
    records, _ = read_log(config.bootstrap_servers, [config.changelog])
    assert [(r.partition, r.key) for r in records if (r.key or b"").startswith(b"u")] == [
        (0, b"u0"),
        (0, b"u2"),
        (1, b"u1"),
    ]
    ends = {r.partition: json.loads(r.value or b"") for r in records if (r.key or b"").startswith(b"e")}
    common = {
        "batch": 0, "epoch": "one", "groups": 4, "partitions": 2, "rules": {"ttl_ms": 5},
        "version": 2, "watermark": 123,
    }  # fmt: skip
    assert ends == {
        0: {**common, "keyGroups": [0, 2], "records": 2},
        1: {**common, "keyGroups": [1], "records": 1},
    }


def test_a_batch_that_writes_for_too_long_says_what_to_raise_and_then_gets_through(cluster: Cluster) -> None:
    config = config_of(cluster)
    slow = PartitionSink(replace(config, extra={"transaction.timeout.ms": "1000"}), 0)
    uncommitted(slow, 0, "too slow")
    values(config)  # once the broker has ended the transaction
    with pytest.raises(BrokerError, match=r"transaction\.timeout\.ms=1000"):
        slow.commit(batch(0))
    assert write(PartitionSink(config, 0), 0, "v0") is Decision.WRITE
    assert values(config) == [b"v0"]


def test_a_timeout_that_the_broker_does_not_allow_says_what_to_lower(cluster: Cluster) -> None:
    config = replace(config_of(cluster), extra={"transaction.timeout.ms": "90000000"})
    with pytest.raises(BrokerError, match=r"lower .* transaction\.max\.timeout\.ms"):
        write(PartitionSink(config, 0), 0, "v0")
    with pytest.raises(BrokerError, match=r"to claim .* lower .* transaction\.max\.timeout\.ms"):
        claims.take(config, "the first run", [0], 0)
