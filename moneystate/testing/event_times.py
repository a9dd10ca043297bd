"""Warns about inputs of a bench whose event times look like seconds."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from moneystate.engine.inputs import partition_in
from moneystate.engine.items import EarlyEvent
from moneystate.records import odd_times
from moneystate.testing.member import Member


class EventTimeWarning(UserWarning):
    """Event times that are probably not in ms."""


class TimeJudge:
    """Judges each input once, by the earliest time of the records that were sent first. Tests often count their times
    from 0, so other early times are nothing to warn of."""

    def __init__(self) -> None:
        self.judged: set[tuple[str, int]] = set()  # service and code of the topic

    def judge(self, members: Iterable[Member]) -> None:
        for member in members:
            first: dict[int, EarlyEvent] = {}
            for event in member.run.sim.early:
                first[event[0]] = min(event, first.get(event[0], event), key=_time_of)
            member.run.sim.early.clear()
            for topic, event in first.items():
                if (member.plan.name, topic) not in self.judged:
                    self.judged.add((member.plan.name, topic))
                    _warn_of(member.plan.topics[topic], event)


def _time_of(event: EarlyEvent) -> int:
    return event[3]


def _warn_of(topic: str, event: EarlyEvent) -> None:
    _, partition, offset, time_ms, key = event
    if odd_times.is_in_seconds(time_ms):
        place = f"{topic}, partition {partition_in(partition)}, offset {offset}"
        warnings.warn(odd_times.warning(place, key, time_ms), EventTimeWarning, stacklevel=2)
