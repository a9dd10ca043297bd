"""`RangeReader` gives exactly the committed records of its ranges, whatever the log looks like."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.errors import RetentionError
from moneystate.kafka import ranges
from moneystate.kafka.ranges import MESSAGE_BYTES, Range, RangeReader
from tests.kafka.logs import Cluster, numbered, places


@pytest.fixture
def reader(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeReader]:
    monkeypatch.setattr(ranges, "STALL_S", 10.0)
    reader = RangeReader(cluster.bootstrap_servers, {}, cluster.prefix)
    yield reader
    reader.consumer.close()


def read(reader: RangeReader, *wanted: Range) -> list[tuple[int, int, bytes]]:
    """Sorted: partitions come mixed. That each one's are in order is checked on the way."""
    messages = list(reader.read(list(wanted)))
    for place in {(m.topic(), m.partition()) for m in messages}:
        offsets = [m.offset() or 0 for m in messages if (m.topic(), m.partition()) == place]
        assert offsets == sorted(offsets)
    return sorted(places(messages))


def test_ranges_that_continue_and_ranges_that_jump(cluster: Cluster, reader: RangeReader) -> None:
    topic = cluster.create("in")
    cluster.send(topic, numbered(0, 100))
    everything = [(0, n, str(n).encode()) for n in range(100)]
    for start, end in ((0, 10), (10, 11), (11, 60), (80, 90), (20, 30), (20, 30), (30, 30), (30, 100)):
        assert read(reader, Range(topic, 0, start, end)) == everything[start:end]


def test_transactions_leave_gaps_and_no_aborted_record(cluster: Cluster, reader: RangeReader) -> None:
    topic = cluster.create("in")
    cluster.transaction(topic, numbered(0, 3))  # marker at 3
    cluster.transaction(topic, [b"aborted"] * 4, commit=False)  # 4 to 7, marker at 8
    cluster.transaction(topic, numbered(9, 11))  # marker at 11
    committed = [(0, n, str(n).encode()) for n in (0, 1, 2, 9, 10)]
    assert read(reader, Range(topic, 0, 0, 12)) == committed
    assert read(reader, Range(topic, 0, 0, 4)) == committed[:3]  # ends with a marker
    assert read(reader, Range(topic, 0, 4, 9)) == []  # nothing but what was aborted
    assert read(reader, Range(topic, 0, 9, 12)) == committed[3:]
    assert read(reader, Range(topic, 0, 11, 12)) == []  # nothing but the marker, at the end of the log
    for start in range(12):  # every offset by itself, each continuing the one before
        assert read(reader, Range(topic, 0, start, start + 1)) == [place for place in committed if place[1] == start]


def test_a_log_that_grows_by_transactions_is_read_on(cluster: Cluster, reader: RangeReader) -> None:
    topic = cluster.create("in")
    for start in range(0, 40, 4):
        cluster.transaction(topic, numbered(start, start + 3))
        assert [offset for _, offset, _ in read(reader, Range(topic, 0, start, start + 4))] == [
            *range(start, start + 3)
        ]


def test_a_partition_that_came_ahead_of_its_range_to_the_end_of_its_log_is_read_on(
    cluster: Cluster, reader: RangeReader
) -> None:
    """Partition 0 is fetched to its end, a transaction's marker, while the range still waits for partition 1."""
    topic = cluster.create("in", partitions=2)
    for start in range(0, 8, 2):
        cluster.transaction(topic, numbered(start, start + 1))  # record, marker, record, marker ...
    cluster.send(topic, numbered(0, 20_000), partition=1)
    first = read(reader, Range(topic, 0, 0, 2), Range(topic, 1, 0, 20_000))
    assert len(first) == 1 + 20_000
    cluster.send(topic, [b"more"], partition=1)
    second = read(reader, Range(topic, 0, 2, 8), Range(topic, 1, 20_000, 20_001))
    assert second == [(0, 2, b"2"), (0, 4, b"4"), (0, 6, b"6"), (1, 20_000, b"more")]


def test_nothing_but_an_aborted_transaction_after_a_range_that_ended_with_a_marker(
    cluster: Cluster, reader: RangeReader
) -> None:
    """The news that the log ends at 4 may come with the first range; the second must not wait for it once more."""
    topic = cluster.create("in")
    cluster.transaction(topic, [b"0"])
    cluster.transaction(topic, [b"aborted"], commit=False)
    assert read(reader, Range(topic, 0, 0, 2)) == [(0, 0, b"0")]
    assert read(reader, Range(topic, 0, 2, 4)) == []


def test_what_comes_ahead_of_its_range_is_not_kept_without_bound(
    cluster: Cluster, reader: RangeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "KEPT_BYTES", 100 * MESSAGE_BYTES)
    topic = cluster.create("in", partitions=2)
    for partition in range(2):
        cluster.send(topic, numbered(0, 5_000), partition=partition)
    for n in range(5):
        records = read(reader, Range(topic, 0, n, n + 1), Range(topic, 1, n * 1_000, (n + 1) * 1_000))
        assert [offset for partition, offset, _ in records if partition == 0] == [n]
        assert [offset for partition, offset, _ in records if partition == 1] == [*range(n * 1_000, (n + 1) * 1_000)]
        assert sum(map(len, reader.ahead.values())) <= 100


def test_a_partition_that_was_let_go_is_read_on_and_the_others_beside_it(
    cluster: Cluster, reader: RangeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges that go on, jump, rest for a batch and come back, with next to nothing kept of what is ahead."""
    monkeypatch.setattr(ranges, "KEPT_BYTES", 10 * MESSAGE_BYTES)
    topic = cluster.create("in", partitions=3)
    for partition in range(3):
        cluster.send(topic, numbered(0, 2_000), partition=partition)
    positions = [0, 0, 0]
    for takes in ((1, 500, 3), (0, 500, 2), (700, 1, 0), (5, 5, 600), (1, 900, 1), (1_293, 94, 1_394)):
        wanted = [Range(topic, p, positions[p], positions[p] + n) for p, n in enumerate(takes)]
        positions = [first + n for first, n in zip(positions, takes, strict=True)]
        assert [(p, offset) for p, offset, _ in read(reader, *wanted)] == [
            (r.partition, offset) for r in wanted for offset in range(r.start, r.end)
        ]
    assert positions == [2_000] * 3


def test_several_partitions_at_once(cluster: Cluster, reader: RangeReader) -> None:
    topic, other = cluster.create("in", partitions=3), cluster.create("other")
    for partition in range(3):
        cluster.send(topic, numbered(0, 50), partition=partition)
    cluster.send(other, numbered(0, 10))
    for end in (10, 20, 50):
        start = {10: 0, 20: 10, 50: 20}[end]
        records = read(
            reader, *(Range(topic, p, start, end) for p in range(3)), Range(other, 0, end // 10, end // 10 + 1)
        )
        assert len(records) == 3 * (end - start) + 1


def test_compaction_leaves_gaps(cluster: Cluster, reader: RangeReader) -> None:
    topic = cluster.create(
        "in", cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", max_compaction_lag_ms="100"
    )
    producer = cluster.producer()
    for n in range(50):
        producer.produce(topic, str(n).encode(), key=b"same")
        producer.flush(30)
    cluster.send(topic, [b"last"], key=b"other")
    records = read(reader, Range(topic, 0, 0, 51))
    assert records[-1] == (0, 50, b"last")  # how much is compacted by now is the broker's to say
    assert [offset for _, offset, _ in records] == sorted({offset for _, offset, _ in records})


@pytest.mark.parametrize(("start", "end"), [(0, 20), (5, 10), (14, 15)])
def test_what_retention_has_taken_is_an_error_and_no_skip(
    cluster: Cluster, reader: RangeReader, start: int, end: int
) -> None:
    topic = cluster.create("in")
    cluster.send(topic, numbered(0, 20))
    cluster.delete_before(topic, 15)
    with pytest.raises(RetentionError):
        read(reader, Range(topic, 0, start, end))


def test_retention_that_overtakes_a_reader_on_its_way_is_an_error(cluster: Cluster, reader: RangeReader) -> None:
    topic = cluster.create("in", partitions=2)
    cluster.send(topic, numbered(0, 10))
    assert len(read(reader, Range(topic, 0, 0, 10))) == 10
    cluster.send(topic, numbered(10, 20))
    cluster.send(topic, numbered(0, 5), partition=1)
    cluster.delete_before(topic, 20)
    with pytest.raises(RetentionError):  # another set of partitions: nothing of the first one's is at hand
        read(reader, Range(topic, 0, 10, 20), Range(topic, 1, 0, 5))
