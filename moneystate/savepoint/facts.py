"""Splits a job's state into facts that do not depend on how it is stored.

Two states are the same exactly if their facts are the same, whatever their pages, chunks, key groups and schema
versions, and however late expired data is removed. So data that can no longer affect a result is not a fact. The
service turns its entries into facts (`moneystate.ports.state.StateModel.facts`); the engine does so for buffer and
clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moneystate.engine import clock as clocks
from moneystate.engine import keys
from moneystate.engine.clock import Clock
from moneystate.engine.items import CLEANUP_RANK, NO_TIME, Item
from moneystate.engine.place import topic_named, where
from moneystate.engine.slots import decode_items, open_chunk
from moneystate.ports.state import BUFFER, Fact, Field, Pair, StateModel, owner


def facts(entries: Iterable[Pair], state: StateModel, rules: Mapping[str, Any], with_clock: bool) -> Iterator[Fact]:
    """The facts of one key group's entries, which must be sorted by key, so that the clock precedes the service's
    entries.

    `with_clock`: include the facts of the clock, which are the same in all key groups. Raises Malformed, and
    CheckpointError for an entry that the service does not know.
    """
    watermark = NO_TIME
    for key, value in entries:
        if key.startswith(keys.BUFFER):
            yield from _buffered(value)
        elif key == clocks.KEY:
            clock = clocks.decode(value)
            watermark = clock.watermark
            if with_clock:
                yield from _clock(clock)
        else:
            yield from entry_facts(key, value, state, watermark, rules)


def entry_facts(
    key: bytes, value: bytes, state: StateModel, watermark: int, rules: Mapping[str, Any]
) -> Iterator[Fact]:
    """The facts of one entry of the service, in the form that the changelog has, too. Raises as `facts` does."""
    owner(state, key)
    return state.facts(key, value, watermark, rules)


def _buffered(chunk: bytes) -> Iterator[Fact]:
    items: list[Item] = []
    count, block = open_chunk(chunk)
    decode_items(block, count, items)
    for item in items:
        time, rank, set_at, topic, _, _, event_time, key, value = item
        if rank < CLEANUP_RANK:
            place: tuple[Field, ...] = (topic, *where(item), rank, time, set_at)
            named = topic_named(value)
            if named is not None:
                place += (named,)
            yield Fact(BUFFER, "buffered", key, place, (event_time, value))


def _clock(clock: Clock) -> Iterator[Fact]:
    yield Fact(BUFFER, "watermark", b"", (), (clock.watermark,))
    for (topic, partition), high in clock.highs.items():
        yield Fact(BUFFER, "high", b"", (topic, partition), (high,))
