"""Assembles changelog records into complete transactions before they are applied (docs/model.md section 6).

Transactions of several output partitions interleave in a changelog partition. Each ends with an end-of-batch record
that names its key groups. All records of a key group before it, in that partition, belong to one batch. They are
returned together, as one batch slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from moneystate.engine import ends
from moneystate.engine.keygroup import key_group_of
from moneystate.engine.marker import BEFORE_FIRST_BATCH
from moneystate.errors import SetupError
from moneystate.replica.model import Version
from moneystate.replica.rows import entry_of, split_entry
from moneystate.runtime.replica_model import ReplicaModel

UNUSABLE: Final = "unusable records of the changelog"  # the kind as which they are counted
MOST_GROUPS: Final = 1 << 20  # no job has as many


class UnusableRecord(SetupError):
    """A record of the changelog that the replica cannot use."""


class EntryChange(NamedTuple):
    """One change of an entry."""

    owner: bytes
    kind: bytes  # first byte of the changelog's key
    entry: bytes  # the key in replica rows
    value: bytes | None  # None: the entry was removed

    @property
    def rest(self) -> bytes:
        return split_entry(self.entry)[2]


@dataclass(frozen=True, slots=True)
class End:
    """An end-of-batch record. None in a field means that the writer did not record it."""

    version: Version
    watermark_ms: int
    groups: tuple[int, ...]
    total: int  # number of key groups of the job
    records: int | None  # changes of these groups that the transaction wrote to this partition
    written_at_ms: int
    partitions: int | None = None  # of the changelog
    rules: Mapping[str, Any] = field(default_factory=dict)  # rules of the batch, as far as the writer records them


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """Holds what one output partition wrote to one changelog partition in one batch."""

    end: End
    changes: list[EntryChange]
    partition: int
    offset: int
    position: int  # where to continue reading once this is applied
    unusable: int = 0  # records before it that could not be used

    @property
    def is_complete(self) -> bool | None:
        """None: not known. Compaction may have removed records of a batch that is not the last. The number of records
        of an initial state is not reliable: it also has tombstones, and records that were written again after a
        crash."""
        expected = self.end.records
        if expected is None or self.end.version.batch == BEFORE_FIRST_BATCH:
            return None
        return expected <= len(self.changes) + self.unusable


@dataclass(slots=True)
class _GroupChanges:
    first: int
    changes: list[EntryChange]


class TransactionAssembler:
    """Holds changelog records back until a batch slice is complete.

    Records outside the partition of their key group are ignored. A checkpoint with another number of key groups removes
    them there.
    """

    def __init__(self, total: int, partitions: int, model: ReplicaModel) -> None:
        self.total = total  # number of key groups of the job; 0: not known yet, and no record may be added
        self.partitions = partitions  # of the changelog
        self.model = model
        self.size = 0  # changes held
        self.pending: dict[int, dict[int, _GroupChanges]] = {}  # partition -> key group -> what is held
        self.unusable: dict[int, int] = {}  # by partition: records since the last slice that could not be used

    def add(self, partition: int, offset: int, key: bytes, value: bytes | None) -> None:
        """Adds a record other than an end-of-batch record. Raises UnusableRecord."""
        self._add(partition, offset, change_of(key, value, self.model))
        self.size += 1

    def end(self, partition: int, offset: int, end: End) -> BatchSlice:
        groups = self.pending.setdefault(partition, {})
        changes: list[EntryChange] = []
        for group in end.groups:
            held = groups.pop(group, None)
            if held is not None:
                changes += held.changes
                self.size -= len(held.changes)
        for stray in [g for g in groups if g % self.partitions != partition]:
            self.size -= len(groups.pop(stray).changes)
        position = min([h.first for h in groups.values()], default=offset + 1)
        return BatchSlice(end, changes, partition, offset, position, self.unusable.pop(partition, 0))

    def skip(self, partition: int) -> None:
        """Notes a record that cannot be used, and is not missing."""
        self.unusable[partition] = self.unusable.get(partition, 0) + 1

    def is_empty(self) -> bool:
        return self.size == 0

    def _add(self, partition: int, offset: int, change: EntryChange) -> None:
        group = key_group_of(change.owner, self.total)
        groups = self.pending.setdefault(partition, {})
        held = groups.get(group)
        if held is None:
            groups[group] = _GroupChanges(offset, [change])
        else:
            held.changes.append(change)


def key_of(message: Any) -> bytes:
    """The key of a record. Raises UnusableRecord if it has none."""
    key: bytes | None = message.key()
    if key is None:
        raise UnusableRecord("the changelog: expected a record with a key, found none.", "find out what wrote it.")
    return key


def change_of(key: bytes, value: bytes | None, model: ReplicaModel) -> EntryChange:
    """Raises UnusableRecord for a key that this program does not know."""
    parts = model.split(key)
    if parts is None:
        raise UnusableRecord(
            f"the changelog: expected a state entry, found one of the kind {key[:1]!r}, {len(key)} bytes.",
            "upgrade this program, because the job's is newer.",
        )
    owner, rest = parts
    return EntryChange(owner, key[:1], entry_of(owner, key[:1], rest), value)


def read_end(value: bytes, timestamp_ms: int, total: int) -> End:
    """`total`: number of key groups of the job, for early records that do not have it. Raises UnusableRecord."""
    try:
        fields = ends.decode(value)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnusableRecord(
            f"the changelog: expected an end-of-batch record, found {len(value):,} other bytes.",
            "upgrade this program.",
        ) from None
    version, groups = Version(fields.epoch, fields.batch), tuple(fields.key_groups)
    of_all = total if fields.total is None else fields.total
    if max(groups, default=0) >= (of_all or MOST_GROUPS) or of_all > MOST_GROUPS:
        raise UnusableRecord(
            f"the changelog: expected an end-of-batch record of {of_all} key groups, found one of group {max(groups)}.",
            "find out what wrote it.",
        )
    return End(
        version, fields.watermark_ms, groups, of_all, fields.records, timestamp_ms, fields.partitions, fields.rules
    )
