"""The loads of key groups and operator partitions, from counted keys. Nothing here does I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moneystate.engine.keygroup import key_group_of

Z95 = 1.96  # of a normal distribution: 95 % of the estimates are within this many standard errors


@dataclass
class Sample:
    """The keys of the sampled records. A record with several keys counts for each of them, as in a job."""

    by_key: Counter[bytes] = field(default_factory=Counter)
    records: int = 0
    without_key: int = 0  # heartbeats and tombstones among them
    undecodable: int = 0

    def add(self, keys: Iterable[bytes]) -> None:
        self.records += 1
        before = self.steps
        self.by_key.update(keys)
        self.without_key += self.steps == before

    def add_undecodable(self) -> None:
        self.records += 1
        self.undecodable += 1

    @property
    def steps(self) -> int:
        return self.by_key.total()


@dataclass(frozen=True)
class Load:
    """A whole, and how it is spread."""

    parts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.parts)

    @property
    def heaviest(self) -> int:
        """The number of the part."""
        return max(range(len(self.parts)), key=self.parts.__getitem__, default=0)

    @property
    def heaviest_share(self) -> float:
        return max(self.parts, default=0) / self.total if self.total else 0.0

    @property
    def max_to_mean(self) -> float:
        return self.heaviest_share * len(self.parts)

    @property
    def speed_up(self) -> float:
        """Returns how many times as fast as one part alone, if the heaviest part decides when all are done."""
        return 1 / self.heaviest_share if self.total else 0.0


class HotKey(NamedTuple):
    key: bytes
    records: int  # of the sample
    share: float
    plus_minus: float  # of the share, at 95 %; 0: the sample has all records


def of_key_groups(by_key: Counter[bytes], key_groups: int) -> Load:
    loads = [0] * key_groups
    for key, n in by_key.items():
        loads[key_group_of(key, key_groups)] += n
    return Load(tuple(loads))


def of_operator_partitions(groups: Load, partitions: int) -> Load:
    """Key group g is on partition g mod n (`moneystate.spark.placement`)."""
    return Load(tuple(sum(groups.parts[number::partitions]) for number in range(partitions)))


def hot_keys(by_key: Counter[bytes], most: int, is_whole: bool) -> list[HotKey]:
    """The heaviest keys. `is_whole`: the counts are of all records."""
    total = by_key.total()
    ranked = sorted(by_key.items(), key=lambda one: (-one[1], one[0]))[:most]
    return [HotKey(key, n, n / total, 0.0 if is_whole else _plus_minus(n / total, total)) for key, n in ranked]


def by_chance(parts: int, total: int) -> float:
    """About what max/mean a sample of `total` shows where the parts' true loads are equal."""
    return 1 + math.sqrt(2 * math.log(parts) * parts / total) if parts > 1 and total else 1.0


def speed_ups(by_key: Counter[bytes], key_groups: int, partitions: Sequence[int]) -> dict[int, float]:
    groups = of_key_groups(by_key, key_groups)
    return {n: of_operator_partitions(groups, n).speed_up for n in partitions}


def _plus_minus(share: float, total: int) -> float:
    return Z95 * math.sqrt(share * (1 - share) / total)
