"""Work of many callers is taken in turn: who has little of it does not wait for who has much."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

from moneystate.rpc.context import Context
from moneystate.serving.callers import Caller
from moneystate.serving.calls import Call
from moneystate.serving.turns import Queue, Rotation, Turns


def test_callers_alternate_and_the_work_of_each_stays_in_its_order() -> None:
    rotation: Rotation[int] = Rotation()
    for n in range(4):
        rotation.add("much", n)
    rotation.add("little", 10)
    assert [rotation.next() for _ in range(6)] == [
        ("much", 0), ("little", 10), ("much", 1), ("much", 2), ("much", 3), None,
    ]  # fmt: skip


def test_one_caller_never_has_all_turns() -> None:
    turns = Turns(most=2, most_per_caller=1, slice_s=60.0)
    held = turns.take("much")
    waiting = threading.Thread(target=lambda: turns.take("much").end(), daemon=True)
    waiting.start()
    turns.take("little").end()  # at once, although `much` waits
    held.end()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_turn_that_is_over_goes_to_who_waits() -> None:
    turns = Turns(most=1, most_per_caller=1, slice_s=0.0)
    order: list[str] = []
    first = turns.take("much")

    def other() -> None:
        turn = turns.take("little")
        order.append("little")
        turn.end()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    while not turns.rotation:
        thread.join(0.001)
    first.give_way()
    order.append("much")
    first.end()
    thread.join(10)
    assert order == ["little", "much"]


def test_pieces_of_calls_alternate_between_callers_in_the_loop() -> None:
    order: list[str] = []
    queue = Queue()

    async def long(who: str, pieces: int) -> None:
        context = cast(Context, SimpleNamespace(time_remaining=lambda: 60.0))
        call = Call(Caller(who, "peer", frozenset()), context, queue=queue)
        for _ in range(pieces):
            await call.yield_control()
            order.append(who)

    async def whole() -> None:
        calls: list[Any] = [long("much", 3) for _ in range(20)]
        left = asyncio.create_task(long("gone", 1))
        tasks = [asyncio.create_task(one) for one in [*calls, long("little", 3)]]
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(whole(), 10))
    assert [n for n, who in enumerate(order) if who == "little"][-1] < 8
    assert len(order) == 63
