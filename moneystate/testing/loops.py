"""Advances time in a bench, also for services that read what they have caused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from moneystate.engine.items import MAX_EVENT_TIME, NO_TIME
from moneystate.engine.limits import MAX_CHAIN, MAX_IDLE
from moneystate.errors import StepError
from moneystate.testing.member import Cuts, Member

FAR: Final = MAX_EVENT_TIME - 366 * 86_400_000
MAX_STAGES: Final = 10  # of waits after each other, whose records services in a loop read


def advance_to(members: Sequence[Member], time_ms: int, chance: random.Random, cuts: Cuts) -> None:
    """Advances time to `time_ms`, writers before readers. Repeats as long as services in a loop send each other
    records. Such records are late. Raises StepError if they do so without end."""
    for _ in range(MAX_CHAIN):
        if not any(member.has_news() for member in members):
            return
        for member in members:
            member.beat(time_ms)
            member.batches(chance, cuts)
        time_ms += 1
    names = ", ".join(member.plan.name for member in members if member.has_news())
    raise StepError(
        f"{names}: expected services to stop sending each other records, they still do after {MAX_CHAIN:,} rounds.",
        "let a record that a service reads again end the exchange.",
    )


def advance_loops(members: Sequence[Member], until_ms: int | None, chance: random.Random, cuts: Cuts) -> None:
    """Advances time to its end, or to `until_ms`, if services read what they have caused: they also read what their
    timers send.

    Time advances to the latest timer that waits, then to the latest one that waits after that, and so on. With timers
    that set themselves again this has no end. So without `until_ms` it ends after a few stages in which no service has
    sent another one anything, and in any case after `MAX_STAGES`.
    """
    if not _has_loops(members):
        return
    quiet = stages = 0
    while until_ms is not None or (quiet < MAX_IDLE and stages < MAX_STAGES):
        due = max(member.run.sim.latest_timer(FAR if until_ms is None else until_ms) for member in members)
        if due == NO_TIME:
            return
        sent = _sent(members)
        members[0].beat(due + 1)
        advance_to(members, due + 1, chance, cuts)
        quiet = 0 if _sent(members) > sent else quiet + 1
        stages += 1


def _has_loops(members: Sequence[Member]) -> bool:
    """Whether a member writes for itself or for one before it."""
    return any(members.index(reader) <= n for n, m in enumerate(members) for _, _, reader in m.links)


def _sent(members: Sequence[Member]) -> int:
    return sum(member.sent for member in members)
