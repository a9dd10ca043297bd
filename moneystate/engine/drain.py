"""Where a drain ends for timers whose steps set timers.

A drain takes the watermark to the end of time, so each timer is due, and one that sets itself again would never end. A
timer that an event has set always runs. One that another timer sets runs up to the key's end: the time of the last
event, plus the longest of the key's timers that wait at that time. A later one runs if the step that set it has changed
state, as a step does that has something left to do, or after at most two in a row that have not.

All of this depends on the log alone. At the last event's time, the timers that wait are the same wherever batches end
and however many key groups there are. No step after that time has run before the drain, as no watermark passes the last
event. Inputs in arrival order are an exception: their clocks may have passed it, and then the end counts from there.
The clocks are in the plan of the drain.
"""

from __future__ import annotations

from typing import Final

from moneystate.engine.effects import Effects
from moneystate.engine.items import END_OF_TIME, KEY, NO_TIME, RANK, SET_AT, TIME, TIMER_RANK, Item
from moneystate.engine.limits import MAX_CHAIN, MAX_IDLE
from moneystate.engine.order import Partition
from moneystate.errors import StepError

AFTER_END: Final = "timers_after_end"  # counts timers that did not run


class DrainEnd:
    """The end of each key of a key group, in the batch that drains it."""

    def __init__(self, due: list[Item], highs: dict[Partition, int]) -> None:
        """`due`: the batch's events and timers. `highs`: of all partitions with events, the batch's marks included."""
        # timed streams that have all ended have no last event
        self.last = max((high for high in highs.values() if high < END_OF_TIME), default=NO_TIME)
        self.ends: dict[bytes, int] = {}
        # past the ends
        self.idle: dict[Item, int] = {}  # how many steps in a row changed nothing, up to the one that set this timer
        self.chained: dict[bytes, int] = {}  # timers that timers set, by key
        for item in due:
            if item[RANK] == TIMER_RANK:
                self._extend(item)

    def allows(self, timer: Item, by: Item | None, effects: Effects) -> bool:
        """Whether a timer runs that was set in this batch. `by`: the event or timer that set it; None: an unordered
        record."""
        if timer[RANK] != TIMER_RANK:
            return True
        if by is None or by[RANK] < TIMER_RANK or by[TIME] <= self.last:
            self._extend(timer)
            return True
        if timer[TIME] <= self.ends.get(timer[KEY], self.last):
            return True
        idle = 0 if effects.has_changed else self.idle.get(by, 0) + 1
        chained = self.chained.get(timer[KEY], 0) + 1
        if self.last == NO_TIME and chained > MAX_CHAIN:
            raise _endless(timer)
        if self.last != NO_TIME and (idle >= MAX_IDLE or chained > MAX_CHAIN):
            effects.count(AFTER_END)
            return False
        self.idle[timer] = idle
        self.chained[timer[KEY]] = chained
        return True

    def _extend(self, timer: Item) -> None:
        """The key's end is not before the end of this timer's span, counted from the last event."""
        due, set_at, key = timer[TIME], timer[SET_AT], timer[KEY]
        if due > self.last:
            end = max(self.last, set_at) + due - set_at
            if end > self.ends.get(key, NO_TIME):
                self.ends[key] = end


def _endless(timer: Item) -> StepError:
    """Where the reader's batches end would decide which of them run."""
    return StepError(
        f"key {timer[KEY].decode(errors='replace')!r}: expected timers to end after the end of all timed streams, "
        f"found more than {MAX_CHAIN:,} that timers set.",
        "let the timer stop setting timers once it has nothing to do.",
    )
