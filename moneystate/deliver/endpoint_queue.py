"""The queue of one endpoint: what of it may be sent now, in which order, and when to look again."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from moneystate.deliver.batches import Waiting, cut
from moneystate.deliver.breaker import Breaker, Status
from moneystate.deliver.pending import FIRST_RUN, Queued
from moneystate.deliver.records import Delivery
from moneystate.deliver.rows import Endpoint, Mode, Ordering, Subscription

PROBED: Final = 100  # messages that are looked at for a probe


@dataclass(slots=True)
class Forming:
    """Deliveries of a subscription that wait for their batch, with the sizes of their envelopes."""

    waiting: deque[tuple[Queued, Waiting]] = field(default_factory=deque)
    bytes: int = 0
    tenants: Counter[str | None] = field(default_factory=Counter)

    def add(self, one: Queued, its: Waiting) -> None:
        self.waiting.append((one, its))
        self.tenants[its.tenant] += 1
        self.bytes += its.bytes

    def due_ms(self, row: Subscription) -> int:
        """When the next batch may be cut."""
        first = self.waiting[0][1].since_ms
        is_full = len(self.waiting) >= row.limits.max_messages or self.bytes >= row.limits.max_bytes
        if is_full or (row.ordering is Ordering.TENANT and len(self.tenants) > 1):
            return first
        return first + row.limits.max_wait_ms

    def take(self, row: Subscription, now_ms: int) -> list[Queued]:
        """The members of the next batch; none if it is not due."""
        if not self.waiting or self.due_ms(row) > now_ms:
            return []
        sizes = [its for _, its in itertools.islice(self.waiting, row.limits.max_messages + 1)]
        its = cut(sizes, row.limits, row.format, row.ordering is Ordering.TENANT)
        if its is None or its.due_ms > now_ms:
            return []
        taken = [self.waiting.popleft() for _ in range(its.members)]
        self.bytes -= sum(its.bytes for _, its in taken)
        self.tenants -= Counter(its.tenant for _, its in taken)  # without those that have none left
        return [one for one, _ in taken]


class EndpointQueue:
    """Rows are at least as new as those by which its deliveries were routed. `row`: None: it is deleted or absent."""

    def __init__(self, endpoint_id: str) -> None:
        self.endpoint_id = endpoint_id
        self.row: Endpoint | None = None
        self.row_offset = -1
        self.subscriptions: dict[str, Subscription | None] = {}
        self.breaker = Breaker()
        self.queued: OrderedDict[str, Queued] = OrderedDict()
        self.in_flight: set[str] = set()
        self.probing = ""  # the message that tries an endpoint whose breaker is open
        self.cutting: set[str] = set()  # batches whose cut is not committed
        self.lanes: dict[str, deque[str]] = {}  # the first one of a lane may be sent
        self.stopped: set[str] = set()  # lanes in which a message is dead whose outcome is not committed
        self.forming: dict[str, Forming] = {}
        self.count = 0  # deliveries, those in batches as well
        self.bytes = 0
        self.held_until_ms = 0
        self.paused_base_ms = 0  # for how long it was paused in all, before the current pause
        self.paused_since_ms: int | None = None
        self._due: list[tuple[int, int, int, str]] = []
        self._next_ms = 0.0  # when the rate allows another message
        self._numbers = itertools.count()

    @property
    def is_deleted(self) -> bool:
        return self.row is None or self.row.is_deleted

    def paused_ms(self, now_ms: int) -> int:
        return self.paused_base_ms + (0 if self.paused_since_ms is None else now_ms - self.paused_since_ms)

    def form(self, one: Queued, its: Waiting) -> None:
        """Adds a delivery that waits for its batch."""
        self.forming.setdefault(one.subscription_id, Forming()).add(one, its)
        self._add(one)

    def unformed(self, subscription_id: str | None) -> Iterator[Queued]:
        """Takes out what waits for the batches of a subscription; None: of all."""
        for name in [name for name in self.forming if subscription_id in (None, name)]:
            for one, _ in self.forming.pop(name).waiting:
                self._drop(one)
                yield one

    def put(self, one: Queued) -> None:
        """A message that may be sent when it is due, and when those before it in its lane have ended."""
        self.queued[one.webhook_id] = one
        self._add(one)
        lane = self.lanes.setdefault(one.lane, deque()) if one.lane else None
        if lane is not None:
            lane.append(one.webhook_id)
        if lane is None or lane[0] == one.webhook_id:
            self.schedule(one)

    def schedule(self, one: Queued) -> None:
        entry = (one.due_ms, one.time_ms, next(self._numbers), one.webhook_id)
        heapq.heappush(self._due, entry)

    def remove(self, one: Queued, is_released: bool = True) -> None:
        """Removes a message that has ended. `is_released`: the next one of its lane may be sent. A request of it
        that is under way stays in `in_flight`."""
        del self.queued[one.webhook_id]
        self._drop(one)
        self.cutting.discard(one.webhook_id)
        if one.lane:
            self._leave_lane(one, is_released)

    def replace_first(self, one: Queued, halves: list[Queued]) -> None:
        """Puts the halves of a batch in its place, also in its lane."""
        self.queued.pop(one.webhook_id)
        self._drop(one)
        if one.lane:
            lane = self.lanes[one.lane]
            lane.popleft()
            lane.extendleft(half.webhook_id for half in reversed(halves))
        for half in halves:
            self.queued[half.webhook_id] = half
            self._add(half)
            self.cutting.add(half.webhook_id)

    def release(self, lane: str) -> None:
        """Lets the next message of a lane be sent."""
        self.stopped.discard(lane)
        waiting = self.lanes.get(lane)
        if waiting:
            self.schedule(self.queued[waiting[0]])
        else:
            self.lanes.pop(lane, None)

    def all_due(self, now_ms: int) -> None:
        """After the breaker has closed: all that waits is due, the oldest first."""
        for one in self._heads():
            one.due_ms = min(one.due_ms, now_ms)
        self._due = [(one.due_ms, one.time_ms, next(self._numbers), one.webhook_id) for one in self._heads()]
        heapq.heapify(self._due)

    def may_send(self, now_ms: int) -> bool:
        if self.row is None or self.row.is_paused or self.row.is_deleted:
            return False
        if self.breaker.status is Status.DISABLED or now_ms < self.held_until_ms:
            return False
        return len(self.in_flight) + len(self.cutting) < self.row.max_in_flight

    def take(self, now_ms: int) -> Queued | None:
        """The next message to send, which is then in flight."""
        if not self.may_send(now_ms):
            return None
        one = self._probe(now_ms) if self.breaker.status is Status.OPEN else self._next(now_ms)
        if one is not None:
            self.in_flight.add(one.webhook_id)
        return one

    def batches(self, now_ms: int) -> Iterator[tuple[Subscription, list[Queued]]]:
        """Batches that are cut now, as long as there are free places."""
        if self.breaker.status is Status.OPEN and (self.in_flight or self.queued):
            return
        for subscription_id, forming in self.forming.items():
            row = self.subscriptions.get(subscription_id)
            while row is not None and self.may_send(now_ms) and (members := forming.take(row, now_ms)):
                for one in members:
                    self._drop(one)
                yield row, members

    def next_ms(self) -> int | None:
        """When to look again; None: only after something has happened."""
        if self.row is None or self.row.is_paused or self.row.is_deleted:
            return None
        if self.breaker.status is Status.DISABLED or len(self.in_flight) + len(self.cutting) >= self.row.max_in_flight:
            return None
        times = [self._due[0][0]] if self._due and self.queued else []
        rows = ((self.subscriptions.get(name), one) for name, one in self.forming.items() if one.waiting)
        times += [one.due_ms(row) for row, one in rows if row is not None]
        if self.breaker.status is Status.OPEN:
            times = [self.breaker.probe_due_ms] if times and not self.in_flight else []
        return max(min(times), self.held_until_ms, round(self._next_ms)) if times else None

    def _add(self, one: Queued) -> None:
        self.count += one.members
        self.bytes += one.bytes

    def _drop(self, one: Queued) -> None:
        self.count -= one.members
        self.bytes -= one.bytes

    def _next(self, now_ms: int) -> Queued | None:
        rate = self._rate(now_ms)
        if not rate or now_ms < self._next_ms:
            return None
        while self._due and self._due[0][0] <= now_ms:
            *_, webhook_id = heapq.heappop(self._due)
            one = self.queued.get(webhook_id)
            if one is None or webhook_id in self.in_flight or not self._is_head(one):
                continue  # an entry of before
            if one.due_ms > now_ms:
                self.schedule(one)
                continue
            self._next_ms = max(self._next_ms, now_ms) + 1_000 / rate
            return one
        return None

    def _rate(self, now_ms: int) -> float:
        own = None if self.row is None else self.row.rate_per_second
        return min(self.breaker.rate(now_ms), float("inf") if own is None else own)

    def _probe(self, now_ms: int) -> Queued | None:
        """One message at a time, another one each time, whenever it is due."""
        if self.in_flight or not self.breaker.may_probe(now_ms):
            return None
        for _ in range(min(PROBED, len(self.queued))):
            webhook_id, one = next(iter(self.queued.items()))
            self.queued.move_to_end(webhook_id)
            if self._is_head(one):
                self.probing = webhook_id
                return one
        return None

    def _is_head(self, one: Queued) -> bool:
        """Whether nothing has to end before it."""
        if one.webhook_id in self.cutting or (one.lane and one.lane in self.stopped):
            return False
        return not one.lane or self.lanes[one.lane][0] == one.webhook_id

    def _heads(self) -> Iterator[Queued]:
        return (one for one in self.queued.values() if one.webhook_id not in self.in_flight and self._is_head(one))

    def _leave_lane(self, one: Queued, is_released: bool) -> None:
        lane = self.lanes[one.lane]
        lane.remove(one.webhook_id)
        if not is_released:
            self.stopped.add(one.lane)
        elif lane:
            self.release(one.lane)
        if not lane and one.lane not in self.stopped:
            del self.lanes[one.lane]


def lane_of(delivery: Delivery, row: Subscription | None) -> str:
    """Empty: no order."""
    if row is None or row.ordering is Ordering.NONE:
        return ""
    return delivery.subscription_id + ("\0" + (delivery.tenant or "") if row.ordering is Ordering.TENANT else "")


def is_forming(one: Queued, row: Subscription | None) -> bool:
    """Whether it waits for its batch. What is sent again goes as it went before."""
    return row is not None and row.mode is Mode.BATCH and one.format is None and one.run == FIRST_RUN
