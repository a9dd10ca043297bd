"""Cuts what a poll gave into transactions, and decides about each partition of one.

A position says where the next transaction of a partition begins. It is locked before it is compared, so of two
instances that both believe to have the partition one finds the other's position. It is compared with where this
instance left off, not with the first record: offsets have gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from moneystate.apply.config import MAX_BYTES, MAX_RECORDS
from moneystate.apply.records import Read, Record


class Partition(NamedTuple):
    topic: str  # with prefix
    number: int


@dataclass(frozen=True)
class Part:
    """Records of one partition, in the order of their offsets."""

    partition: Partition
    begin: int  # where this instance left off
    records: list[Read]

    @property
    def end(self) -> int:
        return self.records[-1].record.offset + 1


@dataclass
class Decision:
    """Decides what happens to the parts of a transaction."""

    apply: list[Part] = field(default_factory=list)
    done: list[Part] = field(default_factory=list)  # already applied; the answer to the commit was lost
    moved: dict[Partition, int] = field(default_factory=dict)  # someone else went on: where
    locked: list[Part] = field(default_factory=list)  # someone else holds the position


def decide(parts: Iterable[Part], positions: Mapping[Partition, int]) -> Decision:
    """`positions`: those that could be locked."""
    decision = Decision()
    for part in parts:
        position = positions.get(part.partition)
        if position is None:
            decision.locked.append(part)
        elif position == part.begin:
            decision.apply.append(part)
        elif position == part.end:
            decision.done.append(part)
        else:
            decision.moved[part.partition] = position
    return decision


def cut(records: Iterable[Record], most: int = MAX_RECORDS, most_bytes: int = MAX_BYTES) -> Iterator[list[Record]]:
    """The records in groups of at most `most` and `most_bytes`. A larger record is alone."""
    group: list[Record] = []
    size = 0
    for record in records:
        if group and (len(group) >= most or size + record.size > most_bytes):
            yield group
            group, size = [], 0
        group.append(record)
        size += record.size
    if group:
        yield group


def parts_of(reads: Iterable[Read], begins: Mapping[Partition, int]) -> list[Part]:
    """The records by partition, in the order of the partitions: positions are locked in it. Records of partitions that
    are not in `begins`, and records before their begin, are left out."""
    by_partition: dict[Partition, list[Read]] = {}
    for read in reads:
        partition = Partition(read.record.topic, read.record.partition)
        if read.record.offset >= begins.get(partition, read.record.offset + 1):
            by_partition.setdefault(partition, []).append(read)
    return [Part(p, begins[p], by_partition[p]) for p in sorted(by_partition)]


def split(part: Part, most: int) -> Iterator[Part]:
    """The part in several of at most `most` records."""
    begin = part.begin
    for start in range(0, len(part.records), most):
        one = Part(part.partition, begin, part.records[start : start + most])
        yield one
        begin = one.end
