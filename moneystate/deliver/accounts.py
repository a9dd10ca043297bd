"""Counts outcomes: each run of each delivery must have exactly one.

A delivery begins with run 1, and each `Redelivered` of it, or of a batch that has it, begins another one. The outcome
of a batch is that of each of its members. A batch that replaces another one goes on with its run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moneystate.deliver.history import Cut, Ended, LogRecord, Redelivered
from moneystate.deliver.outcomes import Outcome

FIRST_RUN: Final = 1


class Run(NamedTuple):
    """A run of one delivery."""

    delivery_id: str
    number: int


class Event(NamedTuple):
    """Names a delivery for people."""

    topic: str
    event_id: str
    subscription_id: str
    endpoint_id: str


class Fault(NamedTuple):
    """A run that has no outcome, or several."""

    run: Run
    event: Event
    outcomes: list[Outcome]


@dataclass
class Totals:
    deliveries: int = 0
    runs: int = 0
    by_outcome: Counter[Outcome] = field(default_factory=Counter)
    open: int = 0  # runs without an outcome
    doubled: int = 0  # runs with several

    @property
    def is_clean(self) -> bool:
        return not self.open and not self.doubled

    def add(self, other: Totals) -> None:
        self.deliveries += other.deliveries
        self.runs += other.runs
        self.by_outcome.update(other.by_outcome)
        self.open += other.open
        self.doubled += other.doubled


class Accounts:
    """The accounts of one partition. It reads first all its deliveries, then its log in order."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._members: dict[str, list[str]] = {}  # of batches
        self._outcomes: dict[Run, list[Outcome]] = {}

    def expect(self, delivery_id: str, event: Event) -> None:
        """A record of `deliveries`. The router writes each of them once."""
        self._events[delivery_id] = event
        self._outcomes[Run(delivery_id, FIRST_RUN)] = []

    def take(self, record: LogRecord) -> None:
        """Records about other deliveries are passed over."""
        if isinstance(record, Cut):
            self._members[record.webhook_id] = [id for id in record.members if id in self._events]
        elif isinstance(record, Redelivered):
            for run in self._runs(record.webhook_id, record.run):
                self._outcomes.setdefault(run, [])
        elif isinstance(record, Ended):
            for run in self._runs(record.webhook_id, record.run):
                self._outcomes.setdefault(run, []).append(record.outcome)

    def _runs(self, webhook_id: str, number: int) -> Iterator[Run]:
        for id in self._members.get(webhook_id, [webhook_id]):
            if id in self._events:
                yield Run(id, number)

    def totals(self) -> Totals:
        totals = Totals(len(self._events), len(self._outcomes))
        for outcomes in self._outcomes.values():
            totals.by_outcome.update(outcomes)
            totals.open += not outcomes
            totals.doubled += len(outcomes) > 1
        return totals

    def faults(self) -> Iterator[Fault]:
        for run, outcomes in self._outcomes.items():
            if len(outcomes) != 1:
                yield Fault(run, self._events[run.delivery_id], outcomes)
