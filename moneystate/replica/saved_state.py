"""Loads a replica from a saved state, instead of from the whole changelog.

A saved state is that of one version, with the positions after it in the changelog. So its load leaves the files as they
are when a follower has read up to there. The follower then reads on as after any pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rocksdict import WriteBatch

from moneystate.replica.loading import Loader
from moneystate.replica.log import Changelog
from moneystate.replica.model import Version
from moneystate.replica.record import BASE
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import UNUSABLE, End, UnusableRecord, change_of

AT_ONCE: Final = 10_000  # entries in one write


@dataclass(frozen=True)
class SavedState:
    """The state of one version, and where the changelog continues."""

    version: Version
    watermark_ms: int
    key_groups: int
    topic_id: str  # of the changelog
    positions: Mapping[int, int]  # by partition
    read_ms: int  # when the positions were the log's ends, by the wall clock
    written_at_ms: int
    rules: Mapping[str, Any]
    entries: Callable[[int], Iterable[tuple[bytes, bytes]]]  # a key group's, as they are in the changelog


def unusable(saved: SavedState, changelog: Changelog) -> str:
    """Returns what the changelog no longer has for a replica that continues from the saved state; empty: it has all."""
    if saved.topic_id != changelog.topic_id:
        return "the changelog is another topic of the same name"
    if saved.positions.keys() != changelog.starts.keys():
        return f"the changelog has {len(changelog.starts)} partitions, not {len(saved.positions)}"
    for partition, position in saved.positions.items():
        first, end = changelog.starts[partition], changelog.ends[partition]
        if not first <= position <= end:
            return f"partition {partition} of the changelog has offsets {first} to {end}, not {position}"
    age_ms = int(time.time() * 1000) - saved.read_ms
    if age_ms > changelog.delete_retention_ms // 2:
        return (
            f"the changelog may have lost tombstones: the state is {age_ms // 60_000} minutes old, which is more than "
            f"half of delete.retention.ms ({changelog.delete_retention_ms // 120_000} minutes)"
        )
    return ""


def load(store: Store, saved: SavedState) -> None:
    """Fills empty files. If it does not end, the next start begins with empty files again."""
    loader, record = Loader(store), store.record
    store.index_as(saved.rules)
    batch = WriteBatch(raw_mode=True)
    for group in range(saved.key_groups):
        for key, value in saved.entries(group):
            try:
                change = change_of(key, value, store.model)
            except UnusableRecord as e:
                store.note_unusable(UNUSABLE, str(e))
                continue
            loader.take(batch, change.owner, change.kind, change.rest, change.entry, value)
            if batch.len() >= AT_ONCE:
                store.db.write(batch)
                batch = WriteBatch(raw_mode=True)
    partitions = len(saved.positions)
    record.last, record.groups, record.partitions = BASE, saved.key_groups, partitions
    record.ended = [saved.positions[group % partitions] - 1 for group in range(saved.key_groups)]
    groups = tuple(range(saved.key_groups))
    end = End(
        saved.version, saved.watermark_ms, groups, len(groups), None, saved.written_at_ms, partitions, saved.rules
    )
    number = store.publisher.number_of(batch, end)
    record.done = [number] * saved.key_groups
    record.skipped = list(range(BASE, number))
    record.alive_ms = saved.read_ms
    record.loading = False
    store.publisher.advance(batch)
    store.commit(batch, dict(saved.positions))
