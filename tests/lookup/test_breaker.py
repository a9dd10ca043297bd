"""When the service counts as down, and whose attempts are used up by that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.lookup.breaker import Breaker, State, Tries

Scene = Callable[[Breaker], Awaitable[None]]


def play(scene: Scene, threshold: int = 3) -> Breaker:
    async def run() -> Breaker:
        breaker = Breaker(threshold, first_wait_s=0.01, max_wait_s=0.04)
        try:
            await asyncio.wait_for(scene(breaker), 30)
        finally:
            breaker.close()
        return breaker

    return asyncio.run(run())


def test_a_failure_among_successes_is_used_up_and_the_outages_are_not() -> None:
    async def scene(breaker: Breaker) -> None:
        unlucky, waiting = Tries(), [Tries() for _ in range(3)]
        breaker.failed(unlucky, False)
        assert (unlucky.used, unlucky.undecided) == (0, 1)
        breaker.succeeded()
        assert (unlucky.used, unlucky.undecided) == (1, 0)
        for tries in [*waiting, unlucky]:
            breaker.failed(tries, False)
        assert breaker.state is State.OPEN
        assert [(t.used, t.undecided) for t in [*waiting, unlucky]] == [(0, 0)] * 3 + [(1, 0)]

    play(scene)


def test_a_run_of_one_that_failed_before_others_succeeded_is_its_own_fault() -> None:
    async def scene(breaker: Breaker) -> None:
        bad = Tries()
        breaker.failed(bad, False)
        breaker.succeeded()
        for _ in range(3):
            breaker.failed(bad, False)
        assert (bad.used, breaker.state) == (4, State.CLOSED)

    play(scene)


def test_open_lets_one_probe_through_at_a_time_and_another_each_time() -> None:
    async def scene(breaker: Breaker) -> None:
        for _ in range(3):
            breaker.failed(Tries(), False)
        order: list[str] = []

        async def caller(name: str) -> None:
            while await breaker.admit():
                order.append(name)
                assert breaker.state is State.HALF_OPEN
                if len(order) == 4:
                    breaker.succeeded()
                    return
                breaker.failed(Tries(), True)

        await asyncio.gather(*(caller(name) for name in "abc"))
        assert order == ["a", "b", "c", "a"]

    assert play(scene).state is State.CLOSED


def test_a_probe_that_is_given_up_lets_the_next_one_through() -> None:
    async def scene(breaker: Breaker) -> None:
        for _ in range(3):
            breaker.failed(Tries(), False)
        first = asyncio.create_task(breaker.admit())
        second = asyncio.create_task(breaker.admit())
        assert await first
        breaker.undecided(True)
        assert await second
        breaker.succeeded()

    assert play(scene).state is State.CLOSED


def test_a_waiter_that_is_cancelled_is_no_probe() -> None:
    async def scene(breaker: Breaker) -> None:
        for _ in range(3):
            breaker.failed(Tries(), False)
        gone = asyncio.create_task(breaker.admit())
        await asyncio.sleep(0)
        gone.cancel()
        assert await breaker.admit()
        breaker.succeeded()

    play(scene)


def test_each_failed_probe_makes_room_for_one_more_session() -> None:
    async def scene(breaker: Breaker) -> None:
        for _ in range(3):
            breaker.failed(Tries(), False)
        for n in range(3):
            assert breaker.room == 3 + n
            assert await breaker.admit()
            breaker.failed(Tries(), True)
        assert await breaker.admit()
        breaker.succeeded()
        assert breaker.room == 3

    play(scene)


@given(st.lists(st.sampled_from(["fail", "succeed"]), max_size=40), st.integers(1, 5))
def test_it_opens_at_a_run_of_failures_and_never_earlier(calls: list[str], threshold: int) -> None:
    async def scene(breaker: Breaker) -> None:
        run: list[Tries] = []
        for call in calls:
            if call == "succeed":
                breaker.succeeded()
                assert all((tries.used, tries.undecided) == (1, 0) for tries in run)
                run = []
            else:
                run.append(Tries())
                breaker.failed(run[-1], False)
            assert breaker.is_closed == (len(run) < threshold)
            if not breaker.is_closed:
                assert all((tries.used, tries.undecided) == (0, 0) for tries in run)
                return

    play(scene, threshold)


@pytest.mark.parametrize("threshold", [1, 10])
def test_without_failures_every_call_is_let_through_at_once(threshold: int) -> None:
    async def scene(breaker: Breaker) -> None:
        assert not await breaker.admit()

    play(scene, threshold)
