"""How records are cut into transactions, and what a position says about each partition."""

from __future__ import annotations

from moneystate.apply.chunks import Part, Partition, cut, decide, parts_of, split
from moneystate.apply.records import Read, Record

A, B = Partition("t", 0), Partition("t", 1)


def record(partition: int, offset: int, size: int = 1) -> Record:
    return Record("t", partition, offset, None, b"x" * size)


def part(partition: Partition, begin: int, *offsets: int) -> Part:
    return Part(partition, begin, [Read(record(partition.number, offset)) for offset in offsets])


def test_a_position_decides_about_its_partition_alone() -> None:
    """It is compared with where this instance left off: offsets have gaps."""
    parts = [part(A, 3, 5, 9), part(B, 0, 0)]
    assert decide(parts, {A: 3, B: 0}).apply == parts
    assert decide(parts, {A: 10, B: 0}).done == parts[:1]
    assert decide(parts, {A: 5, B: 0}).moved == {A: 5}
    assert decide(parts, {A: 5, B: 0}).apply == parts[1:]
    assert decide(parts, {B: 0}).locked == parts[:1]


def test_a_transaction_has_at_most_so_many_records_and_bytes_and_a_larger_record_is_alone() -> None:
    records = [record(0, n, size) for n, size in enumerate([4, 4, 4, 30, 1, 1, 1, 1])]
    assert [[r.offset for r in group] for group in cut(records, 3, 10)] == [[0, 1], [2], [3], [4, 5, 6], [7]]


def test_records_that_are_no_longer_this_instances_are_left_out() -> None:
    reads = [Read(record(1, 4)), Read(record(0, 2)), Read(record(0, 7)), Read(record(0, 8))]
    assert parts_of(reads, {A: 7}) == [part(A, 7, 7, 8)]
    assert [p.partition for p in parts_of(reads, {A: 0, B: 0})] == [A, B]


def test_a_part_that_is_split_begins_where_the_part_before_it_ended() -> None:
    assert list(split(part(A, 3, 5, 9, 12), 2)) == [part(A, 3, 5, 9), part(A, 10, 12)]
