"""Rescales a savepoint to another number of key groups.

A key group is a range of key hashes (`moneystate.engine.keygroup.key_group_of`), so a new group is made of the few old
groups whose ranges overlap with it. The entries of one new group are in memory at a time.

Entries of the service go unchanged to the group of their owner; an entry with an unknown owner is refused. Each item of
the buffer goes to the group of its key. The clock's highs and watermark are the same in all groups. Its counts are sums
and go to the first group. Its ages are counted again, from the entries that hold something back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from moneystate.engine import clock as clocks
from moneystate.engine import keys
from moneystate.engine.clock import Clock
from moneystate.engine.effects import age_start
from moneystate.engine.items import KEY, Item
from moneystate.engine.keygroup import key_group_of, slot_width_ms
from moneystate.engine.keys import is_engines
from moneystate.engine.slots import decode_items, open_chunk, put_later
from moneystate.engine.state import MemoryState
from moneystate.errors import SavepointError
from moneystate.ports.state import Pair, StateModel, owner
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import Savepoint, begin, finish, write_state

ReadGroup = Callable[[int], Iterable[Pair]]


def rescale(state: StateModel, source: Savepoint, out: Path, key_groups: int, on_group: Callable[[int], None]) -> None:
    """Writes `source` as the savepoint `out` with `key_groups` key groups. Calls `on_group` with the number of finished
    groups.

    Raises SavepointError, also if the result is not the same state, and CheckpointError for an entry with an unknown
    owner.
    """
    old = source.manifest
    if old.output:
        raise SavepointError(
            f"{source.folder}: expected a savepoint without output, as its records are by key group.",
            "start it in its own key groups, then export the checkpoint.",
        )
    folder = begin(out)
    files = []
    total = Fingerprint()
    for group in range(key_groups):
        bound_ms, counts = largest_bound_ms(old.rules), old.counts
        entries = rescaled(state, group, key_groups, source.entries, old.key_groups, bound_ms, counts)
        total += of_group(group, entries, state, old.rules)
        files.append(write_state(folder, group, entries))
        on_group(group + 1)
    if str(total) != old.fingerprint:
        raise SavepointError(
            f"{source.folder}: expected the fingerprint {old.fingerprint}, found {total}.", "restore the savepoint."
        )
    changelog = old.changelog if key_groups == old.key_groups else None  # elsewhere, entries are in other partitions
    finish(out, replace(old, key_groups=key_groups, state=files, changelog=changelog))


def sources(group: int, key_groups: int, old_key_groups: int) -> range:
    """The old key groups that have keys of the new group."""
    first = group * old_key_groups // key_groups
    last = ((group + 1) * old_key_groups - 1) // key_groups
    return range(first, last + 1)


def routed(
    state: StateModel, group: int, key_groups: int, new_key_groups: int, entries: Iterable[Pair]
) -> Iterator[tuple[int, bytes, bytes]]:
    """The entries of one old group, each with a new group that needs it for `rescaled`: clock and buffer are for all
    new groups that overlap with the old one."""
    overlapping = sources(group, key_groups, new_key_groups)  # it works both ways
    for key, value in entries:
        if is_engines(key):
            yield from ((new, key, value) for new in overlapping)
        else:
            yield key_group_of(owner(state, key), new_key_groups), key, value


def largest_bound_ms(rules: Mapping[str, Any]) -> int:
    """The largest bound of a job's inputs, by its rules."""
    bounds: list[int] = [rules["bound_ms"], *rules.get("bounds", {}).values()]
    return max(bounds)


def rescaled(
    state: StateModel,
    group: int,
    key_groups: int,
    read: ReadGroup,
    old_key_groups: int,
    bound_ms: int,
    counts: dict[str, int],
) -> list[Pair]:
    """The entries of the new group `group` of `key_groups`, sorted by key. `read` gives an old group's; `counts`: of
    all old groups, summed."""
    memory = MemoryState()
    items: list[Item] = []
    clock = Clock()
    for old in sources(group, key_groups, old_key_groups):
        for key, value in read(old):
            if key == clocks.KEY:
                known = clocks.decode(value)
                clock.watermark, clock.highs = known.watermark, known.highs
            elif key.startswith(keys.BUFFER):
                count, block = open_chunk(value)
                decode_items(block, count, items)
            elif key_group_of(owner(state, key), key_groups) == group:
                memory.entries[key] = value
                _count_age(clock, state.held_since(key, value))
    mine = [item for item in items if key_group_of(item[KEY], key_groups) == group]
    memory.apply(put_later(clock.slots, memory, slot_width_ms(bound_ms), clock.watermark, mine))
    clock.counts = dict(counts) if group == 0 else {}
    memory.entries[clocks.KEY] = clocks.encode(clock)
    return sorted(memory.entries.items())


def _count_age(clock: Clock, held_since: int | None) -> None:
    if held_since is not None:
        since = age_start(held_since)
        clock.ages[since] = clock.ages.get(since, 0) + 1
