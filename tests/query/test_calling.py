"""Declared queries that take long: they start again in a thread, and their reads come back to the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import moneystate as ms
from moneystate.replica.listing import READ_AT_ONCE
from moneystate.replica.view import ReplicaView
from moneystate.rpc.context import Context
from moneystate.serving.callers import Caller
from moneystate.serving.calls import Call
from moneystate.serving.failures import Failure
from moneystate.serving.state.calling import AT_ONCE_S, QueryRunner
from tests.api.services import market
from tests.api.services.market import Moved
from tests.api.test_index import S
from tests.replica.test_service_model import Market

SELLERS = 500


class Until:
    """A context, as far as a call looks at its deadline."""

    def __init__(self, remaining_s: float) -> None:
        self.remaining_s = remaining_s

    def time_remaining(self) -> float:
        return self.remaining_s


class Turns:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.taken = 0

    async def take(self) -> None:
        while True:
            self.taken += 1
            await asyncio.sleep(0)


@pytest.fixture
def replica() -> Iterator[Market]:
    made = Market()
    made.batch([Moved(f"s{n:03d}", "ES", n + 1, S) for n in range(SELLERS)])
    made.batch([Moved("a", "ES", 1, 2 * S)])
    yield made
    made.close()


def call(context: Any, who: str = "me") -> Call:
    made: Context = context
    return Call(Caller(who, "peer", frozenset()), made)


def run(replica: Market, query: Callable[[ms.View], Any], context: Any, beside: Any = None) -> Any:
    async def whole() -> Any:
        runner = QueryRunner()
        other = None if beside is None else asyncio.create_task(beside())
        try:
            return await runner.run(replica.reader.latest(), call(context), query)
        finally:
            runner.close()
            if other is not None:
                other.cancel()

    return asyncio.run(whole())


def slow(view: ms.View) -> tuple[int, str]:
    """Takes longer than a query may at once, before it has read anything."""
    until = time.monotonic() + 2 * AT_ONCE_S
    while time.monotonic() < until:
        pass
    return sum(1 for _ in view.range(market.by_score)), threading.current_thread().name


def test_a_short_query_runs_at_once() -> None:
    replica = Market()
    replica.batch([Moved("a", "ES", 1, S)])
    replica.batch([Moved("a", "ES", 2, 2 * S)])
    name = run(replica, lambda view: threading.current_thread().name, Until(60.0))
    replica.close()
    assert name == threading.current_thread().name


def test_a_long_query_gives_the_same_from_a_thread_and_lets_others_run(replica: Market) -> None:
    turns = Turns()
    count, thread = run(replica, slow, Until(60.0), turns.take)
    assert count == SELLERS
    assert thread.startswith("query")
    assert turns.taken > 3


def test_a_long_query_reads_entries_by_id_in_portions(replica: Market) -> None:
    """So that others run in between, and that each entry does not wait for the loop."""
    works: list[int] = []

    def many(view: ms.View) -> int:
        slow(view)
        assert isinstance(view, ReplicaView)
        on_loop = view.at_once

        def counted(work: Callable[[], Any]) -> Any:
            works.append(1)
            return on_loop(work)

        view.at_once = counted
        return len(view.entries_by_id(market.offers, "s001", [f"x{n}" for n in range(5 * READ_AT_ONCE)]))

    assert run(replica, many, Until(60.0)) == 0
    assert sum(works) == 5


def test_a_long_query_ends_at_its_deadline(replica: Market) -> None:
    with pytest.raises(Failure) as caught:
        run(replica, slow, Until(-1.0))
    assert caught.value.reason == "DEADLINE"


def test_an_error_of_a_query_is_its_callers_to_see(replica: Market) -> None:
    def wrong(view: ms.View) -> int:
        slow(view)
        raise LookupError("none of these")

    with pytest.raises(LookupError, match="none of these"):
        run(replica, wrong, Until(60.0))


def test_a_query_whose_caller_left_reads_no_more(replica: Market) -> None:
    reads = 0
    left = threading.Event()
    ended = threading.Event()

    def endless(view: ms.View) -> None:
        nonlocal reads
        try:
            while True:
                slow(view)
                reads += 1
                left.set()
        finally:
            if threading.current_thread().name.startswith("query"):
                ended.set()

    async def whole() -> None:
        runner = QueryRunner()
        task = asyncio.create_task(runner.run(replica.reader.latest(), call(Until(60.0)), endless))
        while not left.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        while not ended.is_set():
            await asyncio.sleep(0.001)
        runner.close()

    asyncio.run(asyncio.wait_for(whole(), 60))
    assert ended.is_set()


def test_a_query_that_only_computes_leaves_the_loop(replica: Market) -> None:
    turns = Turns()

    def computes(view: ms.View) -> str:
        view.get(market.seller, "a")
        if threading.current_thread() is threading.main_thread():
            while True:
                pass
        return threading.current_thread().name

    assert run(replica, computes, Until(60.0), turns.take) == "query"
    assert turns.taken > 0


def test_a_query_of_another_caller_does_not_wait_for_long_ones(replica: Market) -> None:
    end = threading.Event()

    def endless(view: ms.View) -> None:
        while not end.is_set():
            slow(view)

    async def whole() -> tuple[int, str]:
        runner, snapshot = QueryRunner(), replica.reader.latest()
        long = [asyncio.create_task(runner.run(snapshot, call(Until(60.0), "much"), endless)) for _ in range(20)]
        while len(runner.turns.rotation.waiting.get("much", ())) < 10:
            await asyncio.sleep(0.001)
        answer: tuple[int, str] = await runner.run(snapshot, call(Until(60.0), "little"), slow)
        end.set()
        await asyncio.gather(*long)
        runner.close()
        return answer

    assert asyncio.run(asyncio.wait_for(whole(), 60))[0] == SELLERS
