"""Workers that take over from each other, over topics in memory: what a dispatcher is held to after any crash."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moneystate.deliver import history
from moneystate.deliver.attempts import Answer
from moneystate.deliver.command_reader import CommandReader
from moneystate.deliver.connections import Connections
from moneystate.deliver.dispatcher import Bounds, Changes, Dispatcher
from moneystate.deliver.history import Command, Cut, Ended, LogRecord, Redeliver, Undelivered, to_json
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.pending import Queued
from moneystate.deliver.records import Delivery
from moneystate.deliver.rows import Endpoint, Ordering, Subscription
from tests.deliver.made import READER, Shelf

TICK_MS = 50
MOST_CRASHES = 30
MOST_COMMANDS = 5
DELETION, COMMAND = 0.01, 0.02  # their probability in a tick
BOUNDS = Bounds(max_age_ms=40 * 3_600_000, most_loaded_bytes=8_000)  # members of four messages


@dataclass
class Topics:
    """What is committed."""

    log: list[LogRecord] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)
    undelivered: list[Undelivered] = field(default_factory=list)
    statuses: dict[str, object] = field(default_factory=dict)
    position: int = 0
    commands: int = 0  # position in the commands

    def commit(self, changes: Changes, position: int, commands: int) -> None:
        self.log += changes.log
        self.undelivered += changes.undelivered
        self.statuses |= changes.statuses
        self.position, self.commands = position, commands
        self.shelf.apply(changes)


@dataclass
class Read:
    """Log and deliveries as a reader of commands has them."""

    story: Story

    def values(self, topic: str, partition: int, offset: int) -> Iterator[tuple[int, bytes]]:
        if topic == history.LOG:
            yield from enumerate(to_json(one) for one in self.story.topics.log)
        else:
            yield from enumerate(one.record for one in self.story.deliveries)


@dataclass(frozen=True)
class Sent:
    """A request that came to the receiver."""

    webhook_id: str
    body: bytes
    members: tuple[str, ...]
    subscription_id: str
    tenant: str | None
    status: int | None
    in_flight: int  # of its endpoint, with this one


class Story:
    """Deliveries, rows, commands and receivers of a seed. `run` ends when nothing is pending.

    One subscription or endpoint of some stories is deleted on the way. Commands ask for messages again, also for some
    that have not ended, and the last one when all have.
    """

    def __init__(self, seed: int, deliveries: list[Delivery], endpoints: dict[str, Endpoint],
                 subscriptions: dict[str, Subscription], crashes: float) -> None:  # fmt: skip
        self.random = random.Random(seed)
        self.deliveries = deliveries
        self.endpoints = endpoints
        self.subscriptions = subscriptions
        self.crashes = crashes  # their probability in a tick
        self.crashes_left = MOST_CRASHES  # a worker that never lives long learns nothing of its endpoints
        self.topics = Topics()
        self.sent: list[Sent] = []
        self.now_ms = deliveries[0].time_ms
        self.taken = 0
        self.open = 0, 0  # positions of the open transaction
        self.commands: list[Command] = []
        self.obeyed = 0  # commands
        self.obeying: int | None = None  # commands up to here wait for a transaction that begins from now on
        self.doomed = self.random.choice([*subscriptions, *endpoints, "", ""])
        self.deleted: set[str] = set()  # subscriptions and endpoints
        self.waiting: list[tuple[int, Queued, Answer]] = []  # when an answer comes
        self.uncommitted: Changes | None = None
        self.connections = Connections(self.random.choice([1, 3, 1_000]), lambda: 0)
        self.reader = CommandReader(Read(self), "", "deliveries", READER)  # type: ignore[arg-type]
        self.worker = self._worker()

    def run(self, ticks: int = 30_000) -> None:
        for _ in range(ticks):
            if self.taken == len(self.deliveries) and not self.topics.shelf.records and not self._has_work():
                if len(self.commands) == MOST_COMMANDS:
                    return
                self._command()
            self._tick()
        raise AssertionError(f"after {ticks} ticks pending: {list(self.topics.shelf.records)[:5]}")

    def _has_work(self) -> bool:
        queued = any(queue.count for queue in self.worker.endpoints.values())
        behind = (self.topics.position, self.topics.commands) != (self.taken, len(self.commands))
        return queued or bool(self.waiting) or self.uncommitted is not None or behind

    def _tick(self) -> None:
        self._pass_time()
        for delivery in self.deliveries[self.taken : self.taken + self.random.randrange(4)]:
            self.worker.take(delivery, self.taken, delivery.time_ms, self.now_ms)
            self.taken += 1
        self._delete()
        if len(self.commands) < MOST_COMMANDS - 1 and self.random.random() < COMMAND:
            self._command()
        self._obey()
        self._answer()
        for endpoint, one in list(self.worker.ready(self.now_ms, self.connections)):
            self._send(endpoint, one)
        self._commit()
        if self.crashes_left and self.random.random() < self.crashes:
            self.crashes_left -= 1
            self._crash()

    def _pass_time(self) -> None:
        """To the next event, if nothing is due sooner."""
        times = [due for due, _, _ in self.waiting]
        due = self.worker.next_ms()
        is_taken = self.taken == len(self.deliveries) and self.obeyed == len(self.commands)
        is_idle = is_taken and self.uncommitted is None and not self.worker.fresh
        later = [*times, *([due] if due is not None else [])]
        self.now_ms = max(self.now_ms + TICK_MS, min(later, default=0) if is_idle else 0)

    def _delete(self) -> None:
        if not self.doomed or self.random.random() >= DELETION:
            return
        self.deleted.add(self.doomed)
        if self.doomed in self.endpoints:
            self.worker.endpoint_row(self.doomed, None, 2, self.now_ms)
        else:
            its = self.subscriptions[self.doomed]
            self.worker.subscription_row(its.endpoint_id, self.doomed, None, self.now_ms)
        self.doomed = ""
        if self.crashes and self.random.random() < 0.5:  # before the outcomes are committed
            self._crash()

    def is_deleted(self, subscription_id: str) -> bool:
        return bool(self.deleted & {subscription_id, self.subscriptions[subscription_id].endpoint_id})

    def _command(self) -> None:
        ids = [one.delivery_id for one in self.random.sample(self.deliveries, 3)]
        meant: dict[str, Any] = self.random.choice([{"ids": ids}, {"is_dead": True}, {"until_ms": self.now_ms}])
        endpoint_id, name = self.random.choice(list(self.endpoints)), f"c{len(self.commands)}"
        self.commands.append(Redeliver(name, endpoint_id, "acme", "ann", self.now_ms, **meant))

    def _obey(self) -> None:
        """What is sent again waits until all that was sent before is in the log."""
        if self.obeying is None and self.obeyed < len(self.commands) and self.uncommitted is None:
            self.obeying = len(self.commands)

    def _send_again(self) -> None:
        """After a commit that began when these commands were known."""
        if self.obeying is None:
            return
        for one in self.reader.meant(0, self.commands[self.obeyed : self.obeying]):
            self.worker.redeliver(one.message, one.place, one.run, one.command_id, self.now_ms)
        self.obeyed, self.obeying = self.obeying, None

    def _send(self, endpoint: Endpoint, one: Queued) -> None:
        """Raises AssertionError for what must not be sent yet."""
        message, first = one.loaded, one.loaded.members[0]
        assert not self.is_deleted(one.subscription_id)
        self._check_cut(one)
        self._check_order(one)
        status = self.status_of(endpoint, one)
        retry_after = "3" if status == 429 else None
        flying = 1 + sum(its.endpoint_id == endpoint.endpoint_id for _, its, _ in self.waiting)
        members = tuple(its.delivery_id for its in message.members)
        tenant = first.tenant
        self.sent.append(Sent(one.webhook_id, message.content, members, first.subscription_id, tenant, status, flying))
        answer = Answer(status, 5, retry_after, problem="" if status else "no answer")
        self.waiting.append((self.now_ms + self.random.randrange(1, 400), one, answer))

    def _check_cut(self, one: Queued) -> None:
        """The cut of a batch is committed: after a crash it is sent again as it was."""
        cuts = {its.webhook_id for its in self.topics.log if isinstance(its, Cut)}
        assert one.format is None or one.webhook_id in cuts

    def _check_order(self, one: Queued) -> None:
        """What is before it in its order was accepted, or its outcome is committed."""
        ordering = self.subscriptions[one.subscription_id].ordering
        if ordering is Ordering.NONE:
            return
        done = {member for sent in self.sent if sent.status == 200 for member in sent.members}
        done |= {delivery_id for delivery_id, _ in self.ended()}
        for its in self.deliveries[: self.deliveries.index(one.loaded.members[0])]:
            is_of_lane = its.subscription_id == one.subscription_id and (
                ordering is Ordering.ALL or its.tenant == one.tenant
            )
            assert not is_of_lane or its.delivery_id in done, f"{one.webhook_id} before {its.delivery_id}"

    def ended(self) -> dict[tuple[str, int], list[Outcome]]:
        """The committed outcomes of deliveries and runs."""
        outcomes: dict[tuple[str, int], list[Outcome]] = {}
        for one in self.topics.log:
            if isinstance(one, Ended):
                for delivery_id in self.members(one.webhook_id):
                    outcomes.setdefault((delivery_id, one.run), []).append(one.outcome)
        return outcomes

    def members(self, webhook_id: str) -> list[str]:
        """Ids of deliveries."""
        cuts = (one.members for one in self.topics.log if isinstance(one, Cut) and one.webhook_id == webhook_id)
        return next(cuts, [webhook_id])

    def status_of(self, endpoint: Endpoint, one: Queued) -> int | None:
        """Each endpoint has its manner, by its name."""
        kind = endpoint.endpoint_id.rstrip("0123456789")
        if kind == "flaky":
            return self.random.choice([200, 200, 500, None, 429, 302])
        if kind == "picky":
            return 422 if "bad" in one.loaded.members[0].event_id else 200
        if kind == "small" and one.members > 2:
            return 413
        return 503 if kind == "dead" else 200

    def _answer(self) -> None:
        due = [its for its in self.waiting if its[0] <= self.now_ms]
        self.waiting = [its for its in self.waiting if its[0] > self.now_ms]
        for _, one, answer in sorted(due, key=lambda its: its[0]):
            self.connections.used -= 1
            self.worker.answered(one, answer, self.now_ms)

    def _commit(self) -> None:
        """A transaction is open for a while: what follows is in the next one."""
        if self.uncommitted is not None:
            if self.random.random() < 0.6:
                self.topics.commit(self.uncommitted, *self.open)
                self.worker.committed(self.uncommitted, self.now_ms)
                self.uncommitted = None
                self._send_again()
        elif self.random.random() < 0.5:
            self.uncommitted, self.open = self.worker.collect(self.now_ms), (self.taken, self.obeyed)

    def _crash(self) -> None:
        """Requests that are under way reach the receiver; their answers reach nobody."""
        self.waiting.clear()
        self.connections.used = 0
        self.uncommitted = None
        self.taken, self.obeyed, self.obeying = self.topics.position, self.topics.commands, None
        self.worker = self._worker()

    def _worker(self) -> Dispatcher:
        made = Dispatcher(lambda: 0.0, lambda: f"batch_{self.random.getrandbits(64):x}", self.topics.shelf.load, BOUNDS)
        for endpoint_id, row in self.endpoints.items():
            made.endpoint_row(endpoint_id, None if endpoint_id in self.deleted else row, 1, self.now_ms)
        for subscription_id, its in self.subscriptions.items():
            left = None if subscription_id in self.deleted else its
            made.subscription_row(its.endpoint_id, subscription_id, left, self.now_ms)
        for endpoint_id, breaker in self.topics.statuses.items():
            made.status(endpoint_id, breaker)  # type: ignore[arg-type]
        made.restore(self.topics.shelf.left(), self.now_ms)
        return made
