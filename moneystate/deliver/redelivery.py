"""Which messages a command sends again, by the log of their partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from moneystate.deliver.history import Attempt, Cut, Ended, LogRecord, Redeliver, Redelivered
from moneystate.deliver.outcomes import Outcome

UNDELIVERED_OUTCOMES = (Outcome.DEAD, Outcome.OVERFLOW)


@dataclass(slots=True)
class Past:
    """A message of the log. `members`: ids of deliveries; `format`: empty: a single event; `outcome` None: its last run
    has not ended."""

    webhook_id: str
    endpoint_id: str
    members: list[str]
    format: str = ""
    run: int = 1
    outcome: Outcome | None = None
    ended_ms: int = 0
    commands: set[str] = field(default_factory=set)  # that have sent it again


class Chronicle:
    """The messages of endpoints in a partition's log, and the test messages that were sent."""

    def __init__(self, endpoints: Collection[str]) -> None:
        self.endpoints = endpoints
        self.past: dict[str, Past] = {}
        self.attempted: set[str] = set()

    def take(self, one: LogRecord) -> None:
        if one.endpoint_id not in self.endpoints:
            return
        if isinstance(one, Cut):
            self._cut(one)
            return
        if isinstance(one, Attempt):
            self.attempted.add(one.webhook_id)
            return
        its = self.past.setdefault(one.webhook_id, Past(one.webhook_id, one.endpoint_id, [one.webhook_id]))
        its.run = max(its.run, one.run)
        if isinstance(one, Redelivered):
            its.outcome = None
            its.commands.add(one.command_id)
        elif isinstance(one, Ended):
            its.outcome, its.ended_ms = one.outcome, one.at_ms

    def _cut(self, one: Cut) -> None:
        """A half goes on with the run of its whole, which has no outcome then."""
        made = Past(one.webhook_id, one.endpoint_id, one.members, one.format)
        whole = self.past.get(one.replaces)
        if whole is not None:
            made.run, made.commands = whole.run, set(whole.commands)
        self.past[one.webhook_id] = made

    def chosen(self, command: Redeliver) -> Iterator[Past]:
        """The messages of a command that it has not sent again yet, in the order of the log."""
        for its in self.past.values():
            is_over = its.outcome is not None and command.command_id not in its.commands
            if its.endpoint_id == command.endpoint_id and is_over and _is_meant(its, command):
                yield its


def _is_meant(its: Past, command: Redeliver) -> bool:
    if command.ids is not None:
        return its.webhook_id in command.ids or any(member in command.ids for member in its.members)
    if command.is_dead:
        return its.outcome in UNDELIVERED_OUTCOMES
    since, until = command.since_ms, command.until_ms
    return (since is None or its.ended_ms >= since) and (until is None or its.ended_ms < until)


def chronicle_of(log: Iterable[LogRecord], endpoints: Collection[str]) -> Chronicle:
    made = Chronicle(endpoints)
    for one in log:
        made.take(one)
    return made
