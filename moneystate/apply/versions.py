"""Whole versions of a service's state, from the slices of its changelog.

A version is whole once each key group has ended it, and exact if compaction has not removed a part of it. Only
whole and exact versions are applied; several of them at once are merged. Everything else is held until such a version
follows. A slice that is read again, because the position is before it, is known by its version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moneystate.errors import RetentionError
from moneystate.replica.model import Version
from moneystate.replica.transaction_assembler import BatchSlice, End, EntryChange


class Rank(NamedTuple):
    """A version's place among all: epochs in the order in which they first appear."""

    epoch: int
    batch: int


@dataclass(frozen=True)
class Whole:
    """A version that can be applied, with all changes since the last one."""

    version: Version
    watermark_ms: int
    rules: Mapping[str, Any]  # of the batch, as far as the changelog records them
    changes: dict[bytes, EntryChange]  # the last of each entry
    positions: dict[int, int]  # by partition of the changelog: where to go on once this is applied


class Held(NamedTuple):
    """A slice that waits for its version."""

    rank: Rank
    begin: int  # offset of its first record
    slice: BatchSlice


@dataclass
class Versions:
    """Holds slices until a version is whole and exact. `positions`: where reading began."""

    target: str
    groups: int  # of the job
    positions: dict[int, int]
    whole_from: dict[int, int]  # by partition: compaction may have removed records before this offset
    epochs: list[str] = field(default_factory=list)
    applied: Rank | None = None  # all groups have reached it
    _held: list[Held] = field(default_factory=list)
    _reached: dict[int, Rank] = field(default_factory=dict)  # by key group
    _ended: dict[Rank, set[int]] = field(default_factory=dict)  # the key groups that have ended a version
    _inexact: set[Rank] = field(default_factory=set)
    _last: dict[Rank, End] = field(default_factory=dict)
    held_changes: int = 0

    def add(self, begin: int, batch_slice: BatchSlice, log_ends: Callable[[], Mapping[int, int]]) -> None:
        """`begin`: offset of the slice's first record. `log_ends`: where the log ends now; asked for only if a part of
        the slice is missing."""
        rank = self._rank(batch_slice.end.version)
        if self.applied is not None and rank <= self.applied:
            return
        if batch_slice.is_complete is False:
            self.whole_from |= log_ends()
        exact = batch_slice.is_complete is not False
        if not exact or batch_slice.offset < self.whole_from.get(batch_slice.partition, 0):
            self._inexact.add(rank)
        self._held.append(Held(rank, begin, batch_slice))
        self.held_changes += len(batch_slice.changes)
        for group in batch_slice.end.groups:
            if rank < self._reached.get(group, rank):
                raise RetentionError(
                    f"the changelog: expected versions in order, found {batch_slice.end.version} after a later one.",
                    f"run moneystate apply rebuild {self.target}.",
                )
            self._reached[group] = rank
            self._ended.setdefault(rank, set()).add(group)
        self._last[rank] = batch_slice.end

    def newest(self, quiet: bool = False) -> Whole | None:
        """The newest version that can be applied; None: there is none. `quiet`: everything has been read and nothing
        is being written, so the last version is exact whatever compaction has removed."""
        for rank in sorted(self._ended, reverse=True):
            if len(self._ended[rank]) < self.groups:
                continue
            if rank not in self._inexact or (quiet and rank == max(self._ended)):
                return self._whole(rank)
        return None

    def applied_up_to(self, whole: Whole) -> None:
        """Lets go of what has been applied."""
        rank = self._rank(whole.version)
        self.applied = rank
        self.positions = dict(whole.positions)
        self._held = [held for held in self._held if held.rank > rank]
        self.held_changes = sum(len(held.slice.changes) for held in self._held)
        for known in [r for r in self._ended if r <= rank]:
            del self._ended[known], self._last[known]
        self._inexact = {r for r in self._inexact if r > rank}

    def _whole(self, rank: Rank) -> Whole:
        changes: dict[bytes, EntryChange] = {}
        positions = dict(self.positions)
        later: dict[int, int] = {}
        for held in self._held:
            partition = held.slice.partition
            if held.rank <= rank:
                for change in held.slice.changes:
                    changes[change.entry] = change
                positions[partition] = max(positions.get(partition, 0), held.slice.position)
            else:
                later[partition] = min(later.get(partition, held.begin), held.begin)
        end = self._last[rank]
        for partition, begin in later.items():  # they are read again
            positions[partition] = min(positions.get(partition, begin), begin)
        return Whole(end.version, end.watermark_ms, end.rules, changes, positions)

    def _rank(self, version: Version) -> Rank:
        if version.epoch not in self.epochs:
            self.epochs.append(version.epoch)
        return Rank(self.epochs.index(version.epoch), version.batch)
