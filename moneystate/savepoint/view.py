"""The state of one owner, or of a whole job, as plain data for people and programs, with times in ISO-8601.

Expired data is shown until it is removed, because people inspect a checkpoint to see what it contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moneystate.engine import clock as clocks
from moneystate.engine import keys
from moneystate.engine.clock import Clock
from moneystate.engine.inputs import Inputs, partition_in
from moneystate.engine.items import EVENT_TIME, KEY, NO_TIME, RANK, TIME, TIMER_RANK, VALUE, Item
from moneystate.engine.place import own_value, topic_of, where
from moneystate.engine.plan import TopicPartition
from moneystate.engine.processor import InputTopic
from moneystate.engine.slots import decode_items, open_chunk
from moneystate.ports.state import NAMED_TIMERS, Pair, Row, StateModel, owner, time_text


def job_view(state: StateModel, clock: Clock, buffered: int, read: Iterable[TopicPartition]) -> Row:
    """The state that all key groups share, from the clock of one of them. `buffered`: the sum over all; `read`: the
    partitions that were read so far, as far as they are known."""
    inputs = Inputs(InputTopic(code, name, True, 0) for code, name in state.topics.items())
    names = inputs.names(read)
    highs = []
    for (code, number), high in sorted(clock.highs.items()):
        topic, partition = names.get((code, number), (state.topics.get(code, str(code)), partition_in(number)))
        highs.append({"topic": topic, "partition": partition, "high": time_text(high)})
    return {"watermark": time_text(clock.watermark), "buffered": buffered, "partitions": highs}


def owner_view(state: StateModel, key: bytes, entries: Iterable[Pair], rules: Mapping[str, Any]) -> Row | None:
    """Everything that a key group's entries hold of the owner `key`; None: nothing."""
    watermark = NO_TIME
    mine: list[Pair] = []
    waiting: list[Item] = []
    for name, value in entries:
        if name == clocks.KEY:
            watermark = clocks.decode(value).watermark
        elif name.startswith(keys.BUFFER):
            waiting += _buffered(value, key)
        elif owner(state, name) == key:
            mine.append((name, value))
    sections = state.view(mine, watermark, rules)
    sections.pop(NAMED_TIMERS, None)  # the buffer has them, too
    view: Row = {"state": sections}
    view["buffered"] = [_event(state, item) for item in waiting if item[RANK] < TIMER_RANK]
    view["timers"] = [_timer(state, item) for item in waiting if item[RANK] >= TIMER_RANK]
    if not any([*view["state"].values(), view["buffered"], view["timers"]]):
        return None
    return {"key": key.decode(errors="replace"), "watermark": time_text(watermark), **view}


def _buffered(chunk: bytes, key: bytes) -> list[Item]:
    items: list[Item] = []
    count, block = open_chunk(chunk)
    decode_items(block, count, items)
    return [item for item in items if item[KEY] == key]


def _event(state: StateModel, item: Item) -> Row:
    times = {"orderTime": time_text(item[TIME]), "eventTime": time_text(item[EVENT_TIME])}
    return {**times, "from": _place(state, item), "event": state.event_view(own_value(item[VALUE]))}


def _timer(state: StateModel, item: Item) -> Row:
    return {"due": time_text(item[TIME]), "what": state.timer_view(item), "setBy": _place(state, item)}


def _place(state: StateModel, item: Item) -> str:
    partition, offset = where(item)
    return f"{topic_of(item, state.topics)}/{partition}/{offset}"
