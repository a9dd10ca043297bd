"""The worker's counters, as Prometheus metrics and for the progress line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from moneystate.lookup.breaker import State
from moneystate.lookup.http_service import CallResult, Found, NotFound, Refused, Unusable
from moneystate.lookup.wire import Outcome

LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Timed:
    """The duration of a call, once it has ended."""

    seconds = 0.0


class Metrics:
    """The metrics of one worker. Each has its own registry, so that several workers can run in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        name = "moneystate_lookup_"
        r = self.registry
        self.in_flight = Gauge(name + "in_flight", "Running calls to the service.", registry=r)
        self.waiting = Gauge(name + "waiting", "Requests without a written reply.", registry=r)
        self.oldest = Gauge(
            name + "oldest_waiting_seconds", "Age of the oldest request without a written reply.", registry=r
        )
        self.latency = Histogram(name + "call_seconds", "Duration of a call.", buckets=LATENCY_S, registry=r)
        self.attempts = Counter(name + "attempts", "Calls by result.", ["result"], registry=r)
        self.replies = Counter(name + "replies", "Replies written, by outcome.", ["outcome"], registry=r)
        self.known = Counter(name + "known", "Requests that already had a reply in the results topic.", registry=r)
        self.undecodable = Counter(name + "undecodable", "Records that are not requests.", registry=r)
        self.transactions = Counter(name + "transactions", "Transactions by result.", ["end"], registry=r)
        self.assignments = Counter(name + "assignments", "Assignments of partitions to this worker.", registry=r)
        self.breaker = Gauge(name + "breaker_state", "1 for the current state.", ["state"], registry=r)
        self.totals = dict.fromkeys(Outcome, 0)
        self.calls = 0
        self.set_breaker(State.CLOSED)
        for outcome in Outcome:  # a rate needs the value from before the first
            self.replies.labels(outcome.name)
        for end in ("committed", "aborted"):
            self.transactions.labels(end)

    @contextmanager
    def call(self) -> Iterator[Timed]:
        timed = Timed()
        start = time.monotonic()
        self.calls += 1
        self.in_flight.inc()
        try:
            yield timed
        finally:
            timed.seconds = time.monotonic() - start
            self.in_flight.dec()
            self.latency.observe(timed.seconds)

    def attempt(self, result: CallResult) -> None:
        self.attempts.labels(_name(result)).inc()

    def replied(self, outcome: Outcome) -> None:
        self.totals[outcome] += 1
        self.replies.labels(outcome.name).inc()

    def set_breaker(self, state: State) -> None:
        for each in State:
            self.breaker.labels(each).set(each is state)

    def watch(self, waiting: Callable[[], float], oldest_s: Callable[[], float]) -> None:
        self.waiting.set_function(waiting)
        self.oldest.set_function(oldest_s)


def _name(result: CallResult) -> str:
    match result:
        case Found():
            return "found"
        case NotFound():
            return "not_found"
        case Refused():
            return "too_many_requests"
        case Unusable():
            return "unusable"
        case _:
            return "unavailable"
