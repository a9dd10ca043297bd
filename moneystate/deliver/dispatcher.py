"""What the worker of one partition of `deliveries` sends when, and what it writes.

It knows no Kafka, no connection and no clock: times are arguments. What it decides is in `changes`, for one
transaction. A batch is sent only once its cut is committed, and a message behind a dead one of its order only once that
outcome is. So another worker can always go on from what is committed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from moneystate.deliver import pending
from moneystate.deliver.attempts import Answer
from moneystate.deliver.batches import Waiting, halves
from moneystate.deliver.breaker import Breaker, Status
from moneystate.deliver.connections import Connections
from moneystate.deliver.endpoint_queue import EndpointQueue, is_forming, lane_of
from moneystate.deliver.envelopes import envelope
from moneystate.deliver.history import Attempt, Cut, Ended, LogRecord, Redelivered, Undelivered
from moneystate.deliver.outcomes import (
    MAX_AGE_MS,
    TOO_LARGE,
    WAITS_MS,
    Outcome,
    Verdict,
    counts_for_breaker,
    following,
    verdict,
)
from moneystate.deliver.pending import Queued
from moneystate.deliver.records import Delivery
from moneystate.deliver.requests import Message
from moneystate.deliver.retry_after import hold_ms
from moneystate.deliver.rows import Endpoint, Subscription
from moneystate.deliver.status_events import StatusEvent, kinds_of

MOST_PENDING: Final = 1_000_000  # deliveries of an endpoint
LOOK_AGAIN_MS: Final = 20
MOST_LOADED_BYTES: Final = 16_000_000  # of messages in memory that the store has, too
MEMBER_BYTES: Final = 2_000  # about what a member takes beside its body and its record
MOST_PENDING_BYTES: Final = 10_000_000_000
DELETED, ABSENT_SUBSCRIPTION = "the endpoint is deleted", "the subscription is deleted"


@dataclass
class Changes:
    """What a transaction writes. `pending`: values by key; None: a tombstone. `statuses`: breakers
    of endpoints."""

    log: list[LogRecord] = field(default_factory=list)
    pending: dict[str, bytes | None] = field(default_factory=dict)
    undelivered: list[Undelivered] = field(default_factory=list)
    statuses: dict[str, Breaker] = field(default_factory=dict)
    events: list[StatusEvent] = field(default_factory=list)
    stored: list[Queued] = field(default_factory=list)  # those whose members are in `pending` for the first time
    cuts: list[tuple[str, str]] = field(default_factory=list)  # endpoint and webhook-id
    dead: list[tuple[str, str]] = field(default_factory=list)  # endpoint and lane


@dataclass(frozen=True)
class Bounds:
    most: int = MOST_PENDING
    most_bytes: int = MOST_PENDING_BYTES
    max_age_ms: int = MAX_AGE_MS
    waits_ms: tuple[int, ...] = WAITS_MS
    most_loaded_bytes: int = MOST_LOADED_BYTES


class Dispatcher:
    """`spread`: random numbers from -1 to 1; `new_id`: random ids of batches; `load`: the message of a webhook-id, by
    the committed records of `delivery-pending`."""

    def __init__(
        self, spread: Callable[[], float], new_id: Callable[[], str], load: Callable[[str], Message],
        bounds: Bounds | None = None,
    ) -> None:  # fmt: skip
        self.spread = spread
        self.new_id = new_id
        self.load = load
        self.bounds = bounds or Bounds()
        self.endpoints: dict[str, EndpointQueue] = {}
        self.changes = Changes()
        self.fresh: dict[str, Queued] = {}  # not in `delivery-pending` yet, and not ended
        self._loaded_bytes = 0
        self._starved: dict[str, None] = {}  # endpoints that wait for any connection, the first one first
        self._narrowed: dict[str, None] = {}  # endpoints that may have more than one once connections are free again
        self._wakes: list[tuple[int, str]] = []
        self._wake_ms: dict[str, int] = {}  # the one that counts of each endpoint, the earliest

    # Rows

    def endpoint_row(
        self, endpoint_id: str, row: Endpoint | None, offset: int, now_ms: int, since_ms: int | None = None
    ) -> None:
        """`since_ms`: when the row was written; None: now."""
        since_ms = now_ms if since_ms is None else min(since_ms, now_ms)
        queue = self._queue(endpoint_id)
        was_paused = queue.row is not None and queue.row.is_paused
        queue.row, queue.row_offset = row, offset
        is_paused = row is not None and row.is_paused
        if is_paused and not was_paused:
            queue.paused_since_ms = since_ms
        elif was_paused and not is_paused:
            queue.paused_base_ms, queue.paused_since_ms = queue.paused_ms(since_ms), None
        self._set_breaker(queue, queue.breaker.with_row(offset), now_ms)
        if queue.is_deleted:
            self._cancel(queue, None, DELETED, now_ms)
        self._wake(queue, now_ms)

    def subscription_row(self, endpoint_id: str, subscription_id: str, row: Subscription | None, now_ms: int) -> None:
        """None: it is deleted."""
        queue = self._queue(endpoint_id)
        queue.subscriptions[subscription_id] = row
        if row is None:
            self._cancel(queue, subscription_id, ABSENT_SUBSCRIPTION, now_ms)
        self._wake(queue, now_ms)

    def status(self, endpoint_id: str, breaker: Breaker) -> None:
        """As an earlier worker left it."""
        self._queue(endpoint_id).breaker = breaker

    def resume(self, endpoint_id: str, owner: str, now_ms: int) -> None:
        """Closes the breaker of an owner's endpoint, also of a disabled one, and ends a hold. It begins slowly."""
        queue = self._queue(endpoint_id)
        if queue.row is None or queue.row.owner != owner:
            return
        queue.held_until_ms = 0
        self._set_breaker(queue, Breaker(closed_at_ms=now_ms), now_ms)
        self._wake(queue, now_ms)

    # Deliveries

    def take(self, delivery: Delivery, place: int, routed_ms: int, now_ms: int) -> None:
        """A record of `deliveries`, whose rows have been given. `place`: its offset; `routed_ms`: when the router wrote
        it."""
        queue = self._queue(delivery.endpoint_id)
        one = Queued(Message(delivery.delivery_id, [delivery], None), place, routed_ms)
        one.paused_base_ms = queue.paused_ms(now_ms)
        self._admit(queue, one, now_ms)

    def restore(self, left: Iterable[Queued], now_ms: int) -> None:
        """What stands in `delivery-pending`, in any order, and whose rows have been given."""
        ordered = []
        for one in left:
            queue = self._queue(one.endpoint_id)
            first = one.loaded.members[0]
            row = queue.subscriptions.get(one.subscription_id)
            one.lane = lane_of(first, row)
            size = len(envelope(first)) if is_forming(one, row) else 0
            ordered.append((one.place, size, one))
            one.message = None
        for _, size, one in sorted(ordered, key=lambda its: its[0]):
            self._restore(one, size, now_ms)

    def _restore(self, one: Queued, envelope_bytes: int, now_ms: int) -> None:
        queue = self._queue(one.endpoint_id)
        one.paused_base_ms += queue.paused_ms(now_ms)
        if queue.paused_since_ms is not None:  # it went on while nobody wrote it down
            since_ms = max(queue.paused_since_ms, one.routed_ms)
            one.paused_base_ms = min(one.paused_base_ms, queue.paused_ms(now_ms) - max(0, now_ms - since_ms))
        row = queue.subscriptions.get(one.subscription_id)
        if queue.is_deleted or row is None:
            self._end(queue, one, Outcome.CANCELLED, now_ms, DELETED if queue.is_deleted else ABSENT_SUBSCRIPTION)
        else:
            self._enqueue(queue, one, row, envelope_bytes, now_ms)

    def redeliver(self, message: Message, place: int, run: int, command_id: str, now_ms: int) -> None:
        """Another run of a message that has ended. Its rows have been given. `place`: of its first member."""
        queue = self._queue(message.members[0].endpoint_id)
        if message.webhook_id in queue.queued:
            return  # another command has sent it again
        one = Queued(message, place, now_ms, run, due_ms=now_ms, paused_base_ms=queue.paused_ms(now_ms))
        names = one.webhook_id, queue.endpoint_id, one.subscription_id
        self.changes.log.append(Redelivered(*names, run, now_ms, command_id))
        self._admit(queue, one, now_ms)

    def _admit(self, queue: EndpointQueue, one: Queued, now_ms: int) -> None:
        """Admits a message that is not in `delivery-pending` yet."""
        row = queue.subscriptions.get(one.subscription_id)
        first = one.loaded.members[0]
        one.lane = lane_of(first, row)
        if queue.is_deleted or row is None:
            self._end(queue, one, Outcome.CANCELLED, now_ms, DELETED if queue.is_deleted else ABSENT_SUBSCRIPTION)
        elif queue.count + one.members > self.bounds.most or queue.bytes + one.bytes > self.bounds.most_bytes:
            self._end(queue, one, Outcome.OVERFLOW, now_ms, "too much is pending")
        else:
            self.fresh[one.webhook_id] = one
            self._enqueue(queue, one, row, len(envelope(first)) if is_forming(one, row) else 0, now_ms)

    def tested(self, message: Message, answer: Answer, now_ms: int) -> None:
        """The attempt of a test message, which has no outcome."""
        self._log_attempt(self._queue(message.members[0].endpoint_id), Queued(message, 0, now_ms, 0), answer, now_ms)

    # Sending

    def ready(self, now_ms: int, connections: Connections) -> Iterator[tuple[Endpoint, Queued]]:
        """What is to be sent now. Each is in flight, and has a connection, until it is `answered` or `put_back`."""
        for endpoint_id in self._due(now_ms, connections):
            queue = self.endpoints[endpoint_id]
            due_ms = queue.next_ms()
            if due_ms is not None and due_ms <= now_ms and not connections.allows(len(queue.in_flight)):
                waiting = self._narrowed if queue.in_flight else self._starved
                waiting[endpoint_id] = None
                continue
            for row, members in queue.batches(now_ms):
                self._form(queue, row, members, now_ms)
            while connections.allows(len(queue.in_flight)) and (one := queue.take(now_ms)) is not None:
                assert queue.row is not None
                if one.message is None:
                    one.message = self.load(one.webhook_id)
                    self._loaded_bytes += _memory_of(one)
                connections.used += 1
                yield queue.row, one
            self._wake(queue, now_ms + LOOK_AGAIN_MS)  # what is due and was not sent waits for a transaction

    def _due(self, now_ms: int, connections: Connections) -> Iterator[str]:
        """Endpoints to look at: first those that wait for a connection, as long as there is one."""
        while self._starved and not connections.is_full:
            yield _first_of(self._starved)
        while self._narrowed and not connections.is_scarce:
            yield _first_of(self._narrowed)
        woken = []
        while (next_ms := self.next_ms()) is not None and next_ms <= now_ms:
            _, endpoint_id = heapq.heappop(self._wakes)
            del self._wake_ms[endpoint_id]
            woken.append(endpoint_id)
        yield from sorted(woken)

    def next_ms(self) -> int | None:
        """When `ready` may have something; None: not before something happens."""
        while self._wakes and self._wake_ms.get(self._wakes[0][1]) != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def put_back(self, one: Queued, now_ms: int) -> None:
        """Puts a message back that was `ready` and was not sent after all."""
        queue = self._landed(one, now_ms + LOOK_AGAIN_MS)
        if queue is not None:
            queue.schedule(one)
            self._unload(one)
            self._wake(queue, now_ms + LOOK_AGAIN_MS)

    def _landed(self, one: Queued, now_ms: int) -> EndpointQueue | None:
        """Its request is not under way any more. None: it was cancelled meanwhile."""
        queue = self._queue(one.endpoint_id)
        queue.in_flight.discard(one.webhook_id)
        known = queue.queued.get(one.webhook_id)
        if known is one:
            return queue
        if known is not None:  # it is to be sent again, which had to wait for this
            queue.schedule(known)
        if queue.probing == one.webhook_id:
            queue.probing = ""
        self._wake(queue, now_ms)
        return None

    def answered(self, one: Queued, answer: Answer, now_ms: int) -> None:
        queue = self._landed(one, now_ms)
        if queue is None:
            return
        held = hold_ms(answer.status or 0, answer.retry_after, now_ms)
        result = verdict(answer.status, held)
        is_probe = queue.probing == one.webhook_id
        queue.probing = "" if is_probe else queue.probing
        self._log_attempt(queue, one, answer, now_ms)
        if answer.status == TOO_LARGE and one.format is not None and one.members > 1:
            self._split(queue, one, now_ms)
        elif is_probe and result in (Verdict.FAILED, Verdict.GONE):
            self._after_probe(queue, one, now_ms)
        else:
            self._follow(queue, one, result, held or 0, now_ms)
        if is_probe or not counts_for_breaker(result) or queue.breaker.status is not Status.OPEN:
            # Answers of requests from before the breaker opened say nothing new.
            self._set_breaker(queue, queue.breaker.after(result, now_ms, queue.row_offset), now_ms)
        self._wake(queue, now_ms)

    # Transactions

    def collect(self, now_ms: int) -> Changes:
        """What is to be committed together with the position up to which deliveries were taken. Until `committed` no
        other call of it."""
        for one in self.fresh.values():
            self._store(one, now_ms)
        self.fresh.clear()
        changes, self.changes = self.changes, Changes()
        return changes

    def committed(self, changes: Changes, now_ms: int) -> None:
        """From now on `load` gives what was stored."""
        for one in changes.stored:
            if one.has_ended:
                continue
            one.is_committed = True
            self._loaded_bytes += _memory_of(one)
            queue = self._queue(one.endpoint_id)
            if one.webhook_id not in queue.in_flight and one.webhook_id not in queue.cutting:  # not sent at once
                self._unload(one)
        for endpoint_id, webhook_id in changes.cuts:
            queue = self._queue(endpoint_id)
            queue.cutting.discard(webhook_id)
            cut = queue.queued.get(webhook_id)
            if cut is not None:
                queue.schedule(cut)
            self._wake(queue, now_ms)
        for endpoint_id, lane in changes.dead:
            queue = self._queue(endpoint_id)
            queue.release(lane)
            self._wake(queue, now_ms)

    # What follows

    def _follow(self, queue: EndpointQueue, one: Queued, result: Verdict, held_ms: int, now_ms: int) -> None:
        paused_ms = queue.paused_ms(now_ms)
        next_one = following(
            result,
            one.attempts,
            one.age(paused_ms),
            now_ms,
            self.spread(),
            held_ms,
            self.bounds.max_age_ms,
            self.bounds.waits_ms,
        )
        one.attempts = next_one.attempts
        if result is Verdict.HELD:
            queue.held_until_ms = max(queue.held_until_ms, now_ms + held_ms)
        if next_one.outcome is not None:
            self._end(queue, one, next_one.outcome, now_ms)
            return
        one.due_ms = next_one.due_ms
        if one.is_stored:
            self._store(one, now_ms)
        queue.schedule(one)
        self._unload(one)

    def _after_probe(self, queue: EndpointQueue, one: Queued, now_ms: int) -> None:
        """A probe that failed is no attempt of the message, which yet may be too old by now."""
        if one.age(queue.paused_ms(now_ms)).is_over(now_ms, self.bounds.max_age_ms):
            self._end(queue, one, Outcome.DEAD, now_ms)
        else:
            queue.schedule(one)
            self._unload(one)

    def _end(self, queue: EndpointQueue, one: Queued, outcome: Outcome, now_ms: int, why: str = "") -> None:
        names = one.webhook_id, queue.endpoint_id, one.subscription_id
        self.changes.log.append(Ended(*names, one.run, outcome, now_ms, one.attempts, why))
        if outcome in (Outcome.DEAD, Outcome.OVERFLOW):
            ended = one.webhook_id, one.run, outcome, now_ms, one.attempts
            problem = one.problem or why
            self.changes.undelivered += [Undelivered(*ended, its, one.status, problem) for its in one.loaded.members]
        self._forget(one)
        if one.webhook_id in queue.queued:
            is_dead = outcome is Outcome.DEAD and bool(one.lane)
            queue.remove(one, not is_dead)
            if is_dead:
                self.changes.dead.append((queue.endpoint_id, one.lane))

    def _form(self, queue: EndpointQueue, row: Subscription, members: list[Queued], now_ms: int) -> None:
        """A batch of deliveries that have waited for it."""
        messages = [one.message or self.load(one.webhook_id) for one in members]
        message = Message(self.new_id(), [its.members[0] for its in messages], row.format)
        made = Queued(message, members[0].place, members[0].routed_ms, due_ms=now_ms)
        made.lane, made.paused_base_ms = members[0].lane, members[0].paused_base_ms
        self._cut(queue, made, now_ms)
        for one in members:
            self._forget(one)
        queue.cutting.add(made.webhook_id)
        queue.put(made)

    def _cut(self, queue: EndpointQueue, made: Queued, now_ms: int, replaces: str = "") -> None:
        """A batch is sent once its cut is committed."""
        assert made.format is not None
        names = made.webhook_id, queue.endpoint_id, made.subscription_id
        ids = [one.delivery_id for one in made.loaded.members]
        self.changes.log.append(Cut(*names, made.format.value, ids, now_ms, replaces))
        self.changes.cuts.append((queue.endpoint_id, made.webhook_id))
        self._store(made, now_ms)

    def _split(self, queue: EndpointQueue, one: Queued, now_ms: int) -> None:
        """A batch that is too large for its receiver becomes two."""
        sizes = halves(one.members)
        assert sizes is not None
        message, made = one.loaded, []
        for start, end in ((0, sizes[0]), (sizes[0], one.members)):
            its = Message(self.new_id(), message.members[start:end], message.format)
            # Offsets grow, so this is at most that of its first member, and above those of all before it.
            half = Queued(its, one.place + start, one.routed_ms, one.run, due_ms=now_ms)
            half.lane, half.paused_base_ms = one.lane, one.paused_base_ms
            self._cut(queue, half, now_ms, one.webhook_id)
            made.append(half)
        self._forget(one)
        queue.replace_first(one, made)

    def _cancel(self, queue: EndpointQueue, subscription_id: str | None, why: str, now_ms: int) -> None:
        """All that is pending of a subscription; None: of the endpoint."""
        for one in list(queue.queued.values()):
            if subscription_id in (None, one.subscription_id):
                self._end(queue, one, Outcome.CANCELLED, now_ms, why)
        for one in queue.unformed(subscription_id):
            self._end(queue, one, Outcome.CANCELLED, now_ms, why)

    # Small parts

    def _enqueue(self, queue: EndpointQueue, one: Queued, row: Subscription, envelope_bytes: int, now_ms: int) -> None:
        if is_forming(one, row):
            one.is_cut = False
            queue.form(one, Waiting(envelope_bytes, now_ms, one.tenant))
        else:
            one.is_cut = True
            queue.put(one)
        self._wake(queue, now_ms)

    def _log_attempt(self, queue: EndpointQueue, one: Queued, answer: Answer, now_ms: int) -> None:
        one.status, one.problem = answer.status, answer.problem
        self.changes.log.append(
            Attempt(
                one.webhook_id, queue.endpoint_id, one.subscription_id, one.run, one.attempts + 1, now_ms,
                answer.took_ms, answer.status, answer.problem, answer.text,
            )
        )  # fmt: skip

    def _store(self, one: Queued, now_ms: int) -> None:
        paused_ms = self._queue(one.endpoint_id).paused_ms(now_ms)
        self.changes.pending.update(pending.to_records(one, paused_ms))
        if not one.is_stored:
            one.is_stored = True
            self.changes.stored.append(one)

    def _unload(self, one: Queued) -> None:
        """Leaves the members to the store, unless there is room for them. What is sent soon comes first, and so is in
        memory."""
        if one.is_committed and one.message is not None and self._loaded_bytes > self.bounds.most_loaded_bytes:
            self._loaded_bytes -= _memory_of(one)
            one.message = None

    def _forget(self, one: Queued) -> None:
        """Tombstones, unless it never stood in the topic."""
        one.has_ended = True
        if one.is_committed and one.message is not None:
            self._loaded_bytes -= _memory_of(one)
        self.fresh.pop(one.webhook_id, None)
        if one.is_stored:
            self.changes.pending.update(dict.fromkeys(pending.keys(one.webhook_id, one.parts)))

    def _set_breaker(self, queue: EndpointQueue, breaker: Breaker, now_ms: int) -> None:
        before, queue.breaker = queue.breaker, breaker
        if before.status is not Status.CLOSED and breaker.status is Status.CLOSED:
            queue.all_due(now_ms)
        kinds = kinds_of(before, breaker)
        if kinds or before.is_warned != breaker.is_warned:
            self.changes.statuses[queue.endpoint_id] = breaker
        if queue.row is not None:
            owner = queue.row.owner
            self.changes.events += [StatusEvent(kind, queue.endpoint_id, owner, breaker, now_ms) for kind in kinds]

    def _queue(self, endpoint_id: str) -> EndpointQueue:
        if endpoint_id not in self.endpoints:
            self.endpoints[endpoint_id] = EndpointQueue(endpoint_id)
        return self.endpoints[endpoint_id]

    def _wake(self, queue: EndpointQueue, now_ms: int) -> None:
        """Looks at an endpoint when it is due, from a time on."""
        due_ms = queue.next_ms()
        if due_ms is None:
            return
        wake_ms, known_ms = max(due_ms, now_ms), self._wake_ms.get(queue.endpoint_id)
        if known_ms is None or wake_ms < known_ms:
            self._wake_ms[queue.endpoint_id] = wake_ms
            heapq.heappush(self._wakes, (wake_ms, queue.endpoint_id))


def _memory_of(one: Queued) -> int:
    return 2 * one.bytes + MEMBER_BYTES * one.members


def _first_of(names: dict[str, None]) -> str:
    name = next(iter(names))
    del names[name]
    return name
