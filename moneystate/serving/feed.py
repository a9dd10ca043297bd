"""Schedules watchers. It finds out once which watchers a new version concerns, and runs only a few of them in each
turn of the event loop, so that other callers' reads run in between. If time is short, watchers are notified later.

Only this module asks the replica for newer versions. Reads answer from the version in `seen`.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final

from moneystate.replica.model import ReplicaError, Version
from moneystate.replica.reader import ReplicaReader
from moneystate.serving.failures import Failure

POLL_S: Final = 0.002  # how often the replica is polled; a poll delays reads while it catches up
WOKEN_AT_ONCE: Final = 8  # about a millisecond of work
MANY: Final = 4_000  # if a version changes more keys, all watchers are woken: finding the keys takes about 10 ms
EARLY: Final = 0.3  # by up to this share a wait without news is shortened, so that not all end at once


class Watcher:
    """One watch stream."""

    __slots__ = ("feed", "is_queued", "key", "news", "share", "waiting")

    def __init__(self, feed: Feed, key: str | None) -> None:
        self.feed = feed
        self.key = key  # None: it watches all keys
        self.news = False  # a version has concerned it since the flag was last cleared
        self.is_queued = False
        self.share = 1.0 - EARLY * random.random()
        self.waiting: asyncio.Future[None] | None = None

    async def wait(self, timeout_s: float) -> None:
        """Waits for news and for its turn, at most `timeout_s`. Raises Failure DRAINING."""
        if self.news:
            await self.turn()
            return
        over = asyncio.get_running_loop().call_later(timeout_s, self.feed.enqueue, self)
        try:
            await self._woken()
        finally:
            over.cancel()

    async def turn(self) -> None:
        """Waits until all watchers that have waited longer have had their turn. Raises Failure DRAINING."""
        self.feed.enqueue(self)
        await self._woken()

    async def _woken(self) -> None:
        if not self.feed.draining:
            self.waiting = asyncio.get_running_loop().create_future()
            try:
                await self.waiting
            finally:
                self.waiting = None
        if self.feed.draining:
            raise Failure("DRAINING", "the server is shutting down; continue with `after` at another one")

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


class Feed:
    def __init__(self, reader: ReplicaReader) -> None:
        self.reader = reader
        self.seen: Version | None = None
        self.draining = False
        self.of_all: set[Watcher] = set()
        self.of_one: dict[str, set[Watcher]] = {}
        self.queue: deque[Watcher] = deque()

    async def run(self) -> None:
        look_at = 0.0
        loop = asyncio.get_running_loop()
        while not self.draining:
            await asyncio.sleep(0 if self.queue else POLL_S)
            if loop.time() >= look_at:
                self._look()
                look_at = loop.time() + POLL_S
            self._wake_some()

    async def drain(self) -> None:
        self.draining = True
        for watcher in self._all():
            self.enqueue(watcher)
        while self.queue:
            self._wake_some()
            await asyncio.sleep(0)

    @contextmanager
    def join(self, key: str | None) -> Iterator[Watcher]:
        watcher = Watcher(self, key)
        mine = self.of_all if key is None else self.of_one.setdefault(key, set())
        mine.add(watcher)
        try:
            yield watcher
        finally:
            mine.discard(watcher)
            if key is not None and not mine:
                self.of_one.pop(key, None)

    def _look(self) -> None:
        newest = self.reader.newest()
        if newest != self.seen:
            before, self.seen = self.seen, newest
            self._tell(self._changed(before))

    def _changed(self, before: Version | None) -> set[str] | None:
        """Keys that have changed; None: not known, or too many."""
        if not self.of_one and not self.of_all:
            return set()
        try:
            return None if before is None else self.reader.changed_since(before, MANY)
        except ReplicaError:  # the replica was rebuilt or went back; each watcher finds out for itself
            return None

    def enqueue(self, watcher: Watcher) -> None:
        if not watcher.is_queued:
            watcher.is_queued = True
            self.queue.append(watcher)

    def _all(self) -> Iterator[Watcher]:
        yield from self.of_all
        for watchers in self.of_one.values():
            yield from watchers

    def _tell(self, keys: set[str] | None) -> None:
        if keys is None:
            concerned = self._all()
        elif keys:
            ones = (watcher for key in self.of_one.keys() & keys for watcher in self.of_one[key])
            concerned = chain(self.of_all, ones)
        else:
            return
        for watcher in concerned:
            watcher.news = True
            self.enqueue(watcher)

    def _wake_some(self) -> None:
        for _ in range(min(WOKEN_AT_ONCE, len(self.queue))):
            watcher = self.queue.popleft()
            watcher.is_queued = False
            watcher.wake()
