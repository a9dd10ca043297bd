"""Processes one batch of one key group: finalizes order times, advances the watermark, runs due items, buffers the
rest.

The same code runs inside Spark, in the bootstrap and in tests, each with its own `StateAccess`. The result depends on
the log alone: everything that the batch's own watermark has passed runs in this batch, in the total order, including
timers that are set in it (docs/model.md section 2).
"""

from __future__ import annotations

import zlib
from heapq import heappop, heappush
from typing import Any

from moneystate.engine import clock as clocks
from moneystate.engine import slots
from moneystate.engine.block import Block, TableEnd
from moneystate.engine.clock import Clock
from moneystate.engine.drain import DrainEnd
from moneystate.engine.effects import Effects, Spill
from moneystate.engine.failure import StepFailed
from moneystate.engine.items import (
    END_OF_TIME,
    NO_TIME,
    PARTITION,
    RANK,
    TIME,
    TIMER_RANK,
    TOPIC,
    VALUE,
    EarlyEvent,
    Item,
    Output,
    UnorderedRecord,
)
from moneystate.engine.keys import is_engines
from moneystate.engine.order import Partition, advance, finalize_order_time, floors, holder, silent
from moneystate.engine.place import topic_named, where
from moneystate.engine.processor import Change, Processor
from moneystate.engine.state import StateAccess
from moneystate.errors import MoneystateError


def key_group_of(key: bytes, key_groups: int) -> int:
    """The key group of a key, 0 .. key_groups - 1: CRC-32 scaled, so that it does not follow `crc % partitions`."""
    return (zlib.crc32(key) * key_groups) >> 32


def slot_width_ms(bound_ms: int) -> int:
    """The width of slots near the watermark: about an eighth of `bound_ms`, the largest bound of the job, but at least
    one second."""
    return max(1_000, bound_ms // 8)


class BatchResult:
    """The result of one key group in one batch."""

    def __init__(
        self,
        outputs: list[Output],
        changes: list[Change],
        clock: Clock,
        silent: list[Partition],
        holder: list[Partition],
        early: list[EarlyEvent],
        before: int,
        behind: int,
        due: int,
    ) -> None:
        self.outputs = outputs  # that have not been spilled
        self.changes = changes  # entries of the processor, for the changelog
        self.watermark = clock.watermark
        self.counts = clock.counts
        self.buffered = clock.buffered()
        self.silent = silent  # partitions that hold the watermark back because they have had no record
        self.holder = holder  # the partition that holds it back most
        self.oldest = clock.oldest()  # since when something is held; NO_TIME: nothing is
        self.highs = clock.highs  # the highest event time of each partition
        self.due = due  # when the next event or timer may be due; END_OF_TIME: nothing waits
        self.early = early  # some events whose times are probably in another unit
        self.before = before  # the watermark before the batch
        self.behind = behind  # events that a decision of a plan has put behind it


def run_batch(
    block: Block, state: StateAccess, processor: Processor[Any], bounds: dict[int, int], spill: Spill | None = None
) -> BatchResult:
    """Processes a batch's merged block with the key group's entries in `state`. `bounds`: of each ordered input, in ms,
    by its code; a timed stream has none. `spill`: takes outputs that come before those of the result."""
    clock = clocks.decode(state.get_many([clocks.KEY])[0])
    before = clock.watermark
    fresh, behind = _finalize_order_times(block.items, clock, bounds)
    clock.watermark = advance(clock.highs, block.marks, bounds, before, block.drain_to)
    due: list[Item] = []
    later: list[Item] = []
    changes: dict[bytes, bytes | None] = dict(slots.take_due(clock.slots, state, clock.watermark, due, later))
    watermark = clock.watermark
    for item in fresh:
        if item[TIME] < watermark:
            due.append(item)
        else:
            later.append(item)
    due.sort()
    effects = Effects(spill)
    effects.outputs.extend(block.passed)
    parsed = processor.begin(state, due, block.unordered, before)
    _take_unordered(block.unordered, processor, effects)
    end = DrainEnd(due, _of_events(clock.highs, block.tables)) if watermark == END_OF_TIME else None
    _run_due(due, parsed, processor, effects, watermark, later, end)
    processor_changes = processor.finish(effects)
    if block.rewrite:
        processor_changes = _rewritten(state, processor, processor_changes)
    width_ms = slot_width_ms(max(bounds.values(), default=0))
    soonest = _soonest(clock, later)
    changes.update(slots.put_later(clock.slots, state, width_ms, watermark, later))
    clock.add_counts(block.counts)
    clock.add_counts(effects.counts)
    clock.add_ages(effects.ages)
    changes.update(processor_changes)
    changes[clocks.KEY] = clocks.encode(clock)
    state.apply(list(changes.items()))
    highs, marks = clock.highs, block.marks
    held = silent(highs, marks), holder(highs, marks, bounds)
    return BatchResult(effects.outputs, processor_changes, clock, *held, block.early, before, behind, soonest)


def _of_events(highs: dict[Partition, int], tables: list[TableEnd]) -> dict[Partition, int]:
    """Leaves out those of tables: no timer goes on for the sake of rows, which may be years later than all events."""
    of_rows = {(end.topic, end.partition) for end in tables}
    return {place: high for place, high in highs.items() if place not in of_rows}


def _soonest(clock: Clock, later: list[Item]) -> int:
    """Returns when the next event or timer may be due. `later`: those of this batch, and of the slots that it has
    opened. Of the other slots only the start is known."""
    due = min(clock.slots, default=END_OF_TIME)
    for item in later:
        due = min(due, item[TIME])
    return due


def _rewritten(state: StateAccess, processor: Processor[Any], processor_changes: list[Change]) -> list[Change]:
    """The batch's changes, and all entries of the processor that have an earlier schema."""
    mine = (entry for entry in state.scan() if not is_engines(entry[0]))
    changes: dict[bytes, bytes | None] = dict(processor.rewrite(mine))
    changes.update(processor_changes)
    return list(changes.items())


def _finalize_order_times(items: list[Item], clock: Clock, bounds: dict[int, int]) -> tuple[list[Item], int]:
    """Finalizes order times with the highs from before this batch. Most items stay as they are. Also returns how many
    are behind the watermark, which only a decision of a plan can have advanced so far."""
    watermark = clock.watermark
    if watermark == NO_TIME and not clock.highs:
        return items, 0
    behind = 0
    floor_of: dict[Partition, int] = floors(clock.highs, bounds)
    finalized: list[Item] = []
    for item in items:
        time = item[TIME]
        floor = floor_of.get((item[TOPIC], item[PARTITION]), NO_TIME)
        order_time = finalize_order_time(time, floor, watermark)
        if order_time != time:
            if order_time > floor:
                behind += 1
            _, rank, set_at, topic, partition, offset, event_time, key, value = item
            item = (order_time, rank, set_at, topic, partition, offset, event_time, key, value)
        finalized.append(item)
    return finalized, behind


def _take_unordered(unordered: list[UnorderedRecord], processor: Processor[Any], effects: Effects) -> None:
    index = 0
    try:
        for record in unordered:
            processor.process_unordered(record, effects)
            effects.end_step()
            index += 1
    except MoneystateError:
        raise
    except Exception as e:
        topic, partition, offset, _, _ = unordered[index]
        raise StepFailed(topic, partition, offset, False, e) from e


def _run_due(
    due: list[Any],
    parsed: list[Any],
    processor: Processor[Any],
    effects: Effects,
    watermark: int,
    later: list[Any],
    end: DrainEnd | None,
) -> None:
    """Runs all due items in the total order, merged with the timers that they set and that are due, too.

    Raises StepFailed, which names the item. Items have the type Any here: compiled code would take an `Item` apart and
    make a new tuple for each call.
    """
    set_here: list[Any] = []
    index = 0
    n = len(due)
    item: Any = None
    _take_timers(effects, watermark, set_here, later, item, end)
    try:
        while True:
            if set_here and (index == n or set_here[0] < due[index]):
                item = heappop(set_here)
                processor.step(item, None, effects)
            elif index < n:
                item = due[index]
                processor.step(item, parsed[index], effects)
                index += 1
            else:
                return
            effects.end_step()
            if effects.timers:
                _take_timers(effects, watermark, set_here, later, item, end)
    except MoneystateError:  # which says where
        raise
    except Exception as e:
        if item is None:
            raise
        named = topic_named(item[VALUE])
        topic = item[TOPIC] if named is None else named.decode()
        raise StepFailed(topic, *where(item), item[RANK] >= TIMER_RANK, e) from e


def _take_timers(
    effects: Effects,
    watermark: int,
    set_here: list[Item],
    later: list[Item],
    by: Item | None,
    end: DrainEnd | None,
) -> None:
    for timer in effects.timers:
        if timer[TIME] < watermark:
            if end is None or end.allows(timer, by, effects):
                heappush(set_here, timer)
        else:
            later.append(timer)
    effects.timers.clear()
