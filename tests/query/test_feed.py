"""Watchers over a replica's files, without a server: who is woken, how many at once, and what they are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from moneystate.replica.model import ItemChanges, Version
from moneystate.replica.reader import ReplicaReader
from moneystate.serving.callers import READ, READ_PERSONAL, Caller
from moneystate.serving.calls import Call
from moneystate.serving.failures import Failure
from moneystate.serving.feed import WOKEN_AT_ONCE, Feed
from moneystate.serving.state.watching import StateWatch
from moneystate.state.v1 import header_pb2
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench
from tests.api.services import market
from tests.query import in_memory
from tests.query.test_calls import Caller as Context

WITHIN_S = 90.0
USERS = [f"user-{n}" for n in range(6)]
START = s.WatchRequest(after=header_pb2.Version(epoch="e", batch=1))


class Counted(ReplicaReader):
    """How often it was asked for changes."""

    asked = 0

    def item_changes(self, after: Version, owner: bytes | None, limit: int, mark: bytes | None) -> ItemChanges:
        self.asked += 1
        return super().item_changes(after, owner, limit, mark)


class Served:
    """A replica with a reader of its own, and the watchers' part of a server."""

    def __init__(self) -> None:
        self.market = in_memory.Served(Bench(market.service, bound_ms=0, key_groups=1))
        self.reader = Counted(self.market.model, self.market.store.db)
        self.feed = Feed(self.reader)
        self.watching = StateWatch(self.reader, self.feed)

    @property
    def batch(self) -> int:
        return self.market.batch

    def change(self, *users: str) -> None:
        """A version in which these users move to a country that is named like it."""
        country, at_ms = f"C{self.batch}", self.batch * 1_000
        self.market.bench.send(*[market.Moved(user, country, 0, at_ms) for user in users])
        self.market.update()

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        task = asyncio.create_task(self.feed.run())
        try:
            yield
        finally:
            await self.feed.drain()
            await task


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    made.change(*USERS)
    yield made
    made.market.__exit__()


def call(*scopes: str) -> Call:
    context: Any = Context(1_000_000.0)
    return Call(Caller("", "ipv4:127.0.0.1:1", frozenset(scopes or (READ, READ_PERSONAL))), context)


async def until(holds: Any) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():
            await asyncio.sleep(0)


def test_a_version_wakes_those_whom_it_concerns(served: Served) -> None:
    async def run() -> None:
        with served.feed.join(None) as of_all, served.feed.join("user-1") as one, served.feed.join("user-2") as two:
            async with served.running():
                await until(lambda: served.feed.seen is not None)
                watchers = (of_all, one, two)
                for changed, news in (((), [False] * 3), (("user-1",), [True, True, False])):
                    await until(lambda: not served.feed.queue)
                    for watcher in watchers:
                        watcher.news = False
                    served.change(*changed)
                    await until(lambda: served.feed.seen == Version("e", served.batch - 1))
                    assert [watcher.news for watcher in watchers] == news

    asyncio.run(run())


def test_watchers_are_woken_a_few_at_a_time(served: Served) -> None:
    """Between two turns of the loop the reads of others are answered."""
    woken: Counter[int] = Counter()

    async def wait(turn: list[int]) -> None:
        with served.feed.join(None) as watcher:
            await watcher.wait(WITHIN_S)
            woken[turn[0]] += 1

    async def run() -> None:
        async with served.running():
            await until(lambda: served.feed.seen is not None and not served.feed.queue)
            turn = [0]
            waiting = [asyncio.create_task(wait(turn)) for _ in range(200)]
            await until(lambda: len(served.feed.of_all) == 200)
            served.change("user-1")
            while not all(task.done() for task in waiting):
                turn[0] += 1
                await asyncio.sleep(0)

    asyncio.run(run())
    assert woken.total() == 200
    assert max(woken.values()) <= WOKEN_AT_ONCE


@pytest.mark.parametrize("scopes", [(READ,), (READ, READ_PERSONAL)])
def test_what_many_watchers_are_told_is_made_once(served: Served, scopes: tuple[str, ...]) -> None:
    told: list[list[bytes]] = []

    async def watch() -> None:
        mine: list[bytes] = []
        told.append(mine)
        with contextlib.suppress(Failure):  # DRAINING
            async for answer in served.watching.watch(START, call(*scopes)):
                mine.append(answer)  # noqa: PERF401 (they are looked at meanwhile)

    async def run() -> None:
        async with served.running():
            await until(lambda: served.feed.seen is not None)
            watchers = [asyncio.create_task(watch()) for _ in range(50)]
            await until(lambda: len(served.feed.of_all) == 50 and all(told))
            served.reader.asked = 0
            for _ in range(3):
                served.change(*USERS)
                want = served.batch
                await until(lambda n=want: all(batch(mine[-1]) == n - 1 for mine in told))
        await asyncio.gather(*watchers)

    asyncio.run(run())
    assert served.reader.asked == 3
    assert all(mine[1:] == told[0][1:] for mine in told)
    assert {tuple(r.masked) for r in sellers(told[0][-1])} == {() if READ_PERSONAL in scopes else ("country",)}


def batch(answer: bytes) -> int:
    return int(s.WatchResponse.FromString(answer).header.version.batch)


def sellers(answer: bytes) -> list[s.Record]:
    return [record for record in s.WatchResponse.FromString(answer).changes if record.name.state == "seller"]


PLAN = [("user-0",), (), ("user-1", "user-2"), ("user-0",), (), (), ("user-3",), ("user-0", "user-4"), ("user-1",)]


@pytest.mark.parametrize("pause", [0, 1, 7], ids=lambda n: f"{n} turns between versions")
def test_each_watcher_is_told_of_each_version_that_concerns_it_once(served: Served, pause: int) -> None:
    seen: dict[str, list[int]] = {}

    async def watch(key: str | None) -> None:
        request = s.WatchRequest(key=key, after=START.after)
        with contextlib.suppress(Failure):
            async for encoded in served.watching.watch(request, call()):
                for record in sellers(encoded):
                    assert json.loads(record.json)["country"] == f"C{batch(encoded)}"
                    seen.setdefault(record.name.key if key else f"all {record.name.key}", []).append(batch(encoded))
                await asyncio.sleep(0)  # as the network does

    async def run() -> None:
        async with served.running():
            await until(lambda: served.feed.seen is not None)
            tasks = [asyncio.create_task(watch(key)) for key in (*USERS, None)]
            for changed in PLAN:
                served.change(*changed)
                for _ in range(pause):
                    await asyncio.sleep(0)
            await until(lambda: seen == wanted())
        await asyncio.gather(*tasks)

    asyncio.run(run())
    assert seen == wanted()


def wanted() -> dict[str, list[int]]:
    by_user = {user: [n + 2 for n, changed in enumerate(PLAN) if user in changed] for user in USERS}
    some = {user: batches for user, batches in by_user.items() if batches}
    return some | {f"all {user}": batches for user, batches in some.items()}
