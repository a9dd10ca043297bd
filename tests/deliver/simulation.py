"""Workers that take over from each other, over topics in memory: what a dispatcher is held to after any crash."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from moneystate.deliver.attempts import Answer
from moneystate.deliver.connections import Connections
from moneystate.deliver.dispatcher import Bounds, Changes, Dispatcher
from moneystate.deliver.history import Attempt, Cut, Ended, LogRecord, Undelivered
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.pending import Queued
from moneystate.deliver.records import Delivery
from moneystate.deliver.rows import Endpoint, Ordering, Subscription
from tests.deliver.made import Shelf

TICK_MS = 50
MOST_CRASHES = 30
BOUNDS = Bounds(max_age_ms=40 * 3_600_000, most_loaded_bytes=8_000)  # members of four messages


@dataclass
class Topics:
    """What is committed."""

    log: list[LogRecord] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)
    undelivered: list[Undelivered] = field(default_factory=list)
    statuses: dict[str, object] = field(default_factory=dict)
    position: int = 0

    def commit(self, changes: Changes, position: int) -> None:
        self.log += changes.log
        self.undelivered += changes.undelivered
        self.statuses |= changes.statuses
        self.position = position
        self.shelf.apply(changes)


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
    """Deliveries, rows and receivers of a seed. `run` ends when nothing is pending."""

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
        self.position = 0  # of the open transaction
        self.waiting: list[tuple[int, Queued, Answer]] = []  # when an answer comes
        self.uncommitted: Changes | None = None
        self.connections = Connections(self.random.choice([1, 3, 1_000]), lambda: 0)
        self.worker = self._worker()

    def run(self, ticks: int = 30_000) -> None:
        for _ in range(ticks):
            if self.taken == len(self.deliveries) and not self.topics.shelf.records and not self._has_work():
                return
            self._tick()
        raise AssertionError(f"after {ticks} ticks pending: {list(self.topics.shelf.records)[:5]}")

    def _has_work(self) -> bool:
        queued = any(queue.count for queue in self.worker.endpoints.values())
        return queued or bool(self.waiting) or self.uncommitted is not None or self.topics.position < self.taken

    def _tick(self) -> None:
        self._pass_time()
        for delivery in self.deliveries[self.taken : self.taken + self.random.randrange(4)]:
            self.worker.take(delivery, delivery.time_ms, self.now_ms)
            self.taken += 1
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
        is_idle = self.taken == len(self.deliveries) and self.uncommitted is None and not self.worker.fresh
        later = [*times, *([due] if due is not None else [])]
        self.now_ms = max(self.now_ms + TICK_MS, min(later, default=0) if is_idle else 0)

    def _send(self, endpoint: Endpoint, one: Queued) -> None:
        """Raises AssertionError for what must not be sent yet."""
        message, first = one.loaded, one.loaded.members[0]
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
        done = {member for sent in self.sent if sent.status == 200 for member in sent.members} | set(self.ended())
        for its in self.deliveries[: self.deliveries.index(one.loaded.members[0])]:
            is_of_lane = its.subscription_id == one.subscription_id and (
                ordering is Ordering.ALL or its.tenant == one.tenant
            )
            assert not is_of_lane or its.delivery_id in done, f"{one.webhook_id} before {its.delivery_id}"

    def ended(self) -> dict[str, list[Outcome]]:
        """The committed outcomes of deliveries."""
        cuts = {one.webhook_id: one for one in self.topics.log if isinstance(one, Cut)}
        outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
        for one in self.topics.log:
            if isinstance(one, Ended):
                for delivery_id in cuts[one.webhook_id].members if one.webhook_id in cuts else [one.webhook_id]:
                    outcomes[delivery_id].append(one.outcome)
        return outcomes

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
                self.topics.commit(self.uncommitted, self.position)
                self.worker.committed(self.uncommitted, self.now_ms)
                self.uncommitted = None
        elif self.random.random() < 0.5:
            self.uncommitted, self.position = self.worker.collect(self.now_ms), self.taken

    def _crash(self) -> None:
        """Requests that are under way reach the receiver; their answers reach nobody."""
        self.waiting.clear()
        self.connections.used = 0
        self.uncommitted = None
        self.taken = self.topics.position
        self.worker = self._worker()

    def _worker(self) -> Dispatcher:
        made = Dispatcher(lambda: 0.0, lambda: f"batch_{self.random.getrandbits(64):x}", self.topics.shelf.load, BOUNDS)
        for endpoint_id, row in self.endpoints.items():
            made.endpoint_row(endpoint_id, row, 1, self.now_ms)
        for subscription_id, its in self.subscriptions.items():
            made.subscription_row(its.endpoint_id, subscription_id, its, self.now_ms)
        for endpoint_id, breaker in self.topics.statuses.items():
            made.status(endpoint_id, breaker)  # type: ignore[arg-type]
        made.restore(self.topics.shelf.left(), self.now_ms)
        return made


def check(story: Story) -> None:
    """Raises AssertionError if a promise does not hold."""
    check_outcomes(story)
    check_bodies(story)
    queues = story.worker.endpoints.values()
    assert [(queue.endpoint_id, queue.count, queue.bytes) for queue in queues if queue.count or queue.bytes] == []
    for one in story.sent:
        endpoint = story.endpoints[story.subscriptions[one.subscription_id].endpoint_id]
        assert one.in_flight <= endpoint.max_in_flight


def check_outcomes(story: Story) -> None:
    """Each delivery has one outcome, and a delivered one has come to its receiver with 2xx."""
    outcomes = story.ended()
    wanted = {one.delivery_id for one in story.deliveries}
    assert outcomes.keys() == wanted
    assert all(len(its) == 1 for its in outcomes.values()), [one for one in outcomes.items() if len(one[1]) > 1][:3]
    accepted = {member for one in story.sent if one.status and 200 <= one.status <= 299 for member in one.members}
    delivered = {delivery_id for delivery_id, its in outcomes.items() if its == [Outcome.DELIVERED]}
    assert delivered <= accepted
    left = {(one.delivery.delivery_id, one.outcome) for one in story.topics.undelivered}
    assert left == {(name, its[0]) for name, its in outcomes.items() if its[0] in (Outcome.DEAD, Outcome.OVERFLOW)}
    assert len(story.topics.undelivered) == len(left)


def check_bodies(story: Story) -> None:
    """A webhook-id always has the same body and members."""
    bodies: dict[str, tuple[bytes, tuple[str, ...]]] = {}
    for one in story.sent:
        assert bodies.setdefault(one.webhook_id, (one.body, one.members)) == (one.body, one.members)
    attempts = {one.webhook_id for one in story.topics.log if isinstance(one, Attempt)}
    assert attempts <= bodies.keys()
