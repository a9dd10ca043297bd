"""What must hold for whatever calls HTTP. Each caller derives from `CallerContract`."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

import pytest

from moneystate.http.sender import TIMEOUTS_IN_A_ROW
from tests.http.server import Mode, Server

MOST = 5  # calls at a time, of a caller that has a pool
SOON_S = 0.05  # the time of a call that is to end without an answer
IN_TIME_S = 60.0  # that of one that is to be answered, however busy the machine
TURNS = 60  # of the event loop: a call to a server on loopback takes fewer


class Caller(ABC):
    @abstractmethod
    async def call(self, name: str, timeout_s: float) -> str | None:
        """The answer to a call that has this name, which is the name. None: there was no answer."""

    @abstractmethod
    async def close(self) -> None: ...


class CallerContract(ABC):
    is_pooled: bool

    @abstractmethod
    def caller(self, server: Server) -> Caller: ...

    def body(self, path: str) -> bytes:
        """The server's answer to a path."""
        return json.dumps(path.rsplit("/", 1)[1]).encode()

    def play(self, scene: Callable[[Server, Caller], Awaitable[None]]) -> None:
        async def run() -> None:
            async with Server(self.body) as server:
                caller = self.caller(server)
                try:
                    await scene(server, caller)
                finally:
                    await caller.close()
                await _until(lambda: server.open == 0)  # nothing is left

        asyncio.run(asyncio.wait_for(run(), IN_TIME_S))

    def test_answers(self) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            names = [str(n) for n in range(10 * MOST)]
            assert await asyncio.gather(*(caller.call(n, IN_TIME_S) for n in names)) == names
            if self.is_pooled:
                assert server.most_open == server.accepted == MOST

        self.play(scene)

    def test_after_an_outage_the_first_call_is_answered(self) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            await _warm(server, caller)
            await server.stop()
            assert await asyncio.gather(*(caller.call("1", IN_TIME_S) for _ in range(4 * MOST))) == [None] * 4 * MOST
            await server.start()
            assert await caller.call("2", IN_TIME_S) == "2"

        self.play(scene)

    @pytest.mark.parametrize("mode", [Mode.SILENT, Mode.HALF])
    def test_a_server_that_does_not_answer_costs_each_call_its_time_and_no_more(self, mode: Mode) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            await _warm(server, caller)
            server.mode = mode
            assert await asyncio.gather(*(caller.call("1", SOON_S) for _ in range(4 * MOST))) == [None] * 4 * MOST
            await _until(lambda: server.open <= MOST)
            server.mode = Mode.ANSWERS
            assert await caller.call("2", IN_TIME_S) == "2"
            await _all_places(server, caller)

        self.play(scene)

    def test_half_an_answer_is_none(self) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            server.mode = Mode.HANGS_UP
            assert await caller.call("1", IN_TIME_S) is None
            server.mode = Mode.ANSWERS
            assert await caller.call("2", IN_TIME_S) == "2"

        self.play(scene)

    def test_connections_that_the_server_closes_while_they_are_idle_cost_no_call(self) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            for number in range(3):
                await _warm(server, caller)
                await server.close_connections()
                assert await caller.call(str(number), IN_TIME_S) == str(number)

        self.play(scene)

    def test_connections_that_die_without_a_sign_are_all_given_up_after_a_few_calls(self) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            await _warm(server, caller)
            server.forget_connections()
            for _ in range(TIMEOUTS_IN_A_ROW if self.is_pooled else 0):
                assert await caller.call("1", SOON_S) is None
            assert await caller.call("2", IN_TIME_S) == "2"
            await _all_places(server, caller)

        self.play(scene)

    def test_a_call_that_is_cancelled_at_any_moment_takes_nothing_with_it(self) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            for turns in range(TURNS):
                calls = [asyncio.create_task(caller.call("gone", IN_TIME_S)) for _ in range(MOST)]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
                assert await caller.call(str(turns), IN_TIME_S) == str(turns)
            await _all_places(server, caller)
            if self.is_pooled:
                assert server.open <= MOST

        self.play(scene)

    def test_a_late_answer_is_nobodys(self) -> None:
        async def scene(server: Server, caller: Caller) -> None:
            await _warm(server, caller)
            server.gate.clear()
            assert await caller.call("late", SOON_S) is None
            before = len(server.paths)
            next_call = asyncio.create_task(caller.call("next", IN_TIME_S))
            await _until(lambda: len(server.paths) > before)
            server.gate.set()
            assert await next_call == "next"

        self.play(scene)


async def _warm(server: Server, caller: Caller) -> None:
    """Opens as many connections as the caller may have."""
    await _all_places(server, caller)


async def _all_places(server: Server, caller: Caller) -> None:
    """MOST calls are with the server at the same time, and all are answered."""
    server.gate.clear()
    before = len(server.paths)
    names = [f"place{n}" for n in range(MOST)]
    calls = asyncio.gather(*(caller.call(name, IN_TIME_S) for name in names))
    await _until(lambda: len(server.paths) - before >= MOST)
    server.gate.set()
    assert await calls == names


async def _until(holds: Callable[[], bool]) -> None:
    """`play` has the deadline."""
    while not holds():
        await asyncio.sleep(0.001)
