"""Takes the work of callers in turn, however much of it each of them has.

`Turns` is for threads, `Queue` for the event loop. Both serve the callers that wait in rotation, and the work of one
caller in its order.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rotation(Generic[T]):
    """Holds what waits, by caller."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def add(self, who: str, one: T) -> None:
        self.waiting.setdefault(who, deque()).append(one)

    def next(self, may: Callable[[str], bool] = lambda who: True) -> tuple[str, T] | None:
        """Takes the first caller that `may`, and moves it to the end of the queue. None: no such caller waits."""
        who = next((who for who in self.waiting if may(who)), None)
        if who is None:
            return None
        mine = self.waiting.pop(who)
        one = mine.popleft()
        if mine:
            self.waiting[who] = mine
        return who, one


class Turns:
    """Threads that may run at the same time. A long one gives way to others from time to time."""

    def __init__(self, most: int, most_per_caller: int, slice_s: float) -> None:
        self.free = most
        self.most_per_caller = most_per_caller  # fewer than `most`: long work of one caller leaves room for others
        self.slice_s = slice_s  # how long a turn lasts
        self.running: Counter[str] = Counter()
        self.rotation: Rotation[threading.Event] = Rotation()
        self.lock = threading.Lock()

    def take(self, who: str) -> Turn:
        """Waits for a turn."""
        mine = threading.Event()
        with self.lock:
            self.rotation.add(who, mine)
            self._start()
        mine.wait()
        return Turn(self, who)

    def give_back(self, who: str) -> None:
        with self.lock:
            self.free += 1
            self.running[who] -= 1
            if not self.running[who]:
                del self.running[who]
            self._start()

    def _start(self) -> None:
        while self.free:
            chosen = self.rotation.next(lambda who: self.running[who] < self.most_per_caller)
            if chosen is None:
                return
            who, event = chosen
            self.free -= 1
            self.running[who] += 1
            event.set()


class Turn:
    """The right of a thread to run."""

    def __init__(self, turns: Turns, who: str) -> None:
        self.turns = turns
        self.who = who
        self.until = time.monotonic() + turns.slice_s

    def give_way(self) -> None:
        """If the turn is over, it waits for the next one."""
        if time.monotonic() >= self.until:
            self.turns.give_back(self.who)
            self.until = self.turns.take(self.who).until

    def end(self) -> None:
        self.turns.give_back(self.who)


class Queue:
    """Pieces of calls in the event loop: one in each round of the loop."""

    def __init__(self) -> None:
        self.rotation: Rotation[asyncio.Future[None]] = Rotation()
        self.is_due = False

    async def turn(self, who: str) -> None:
        """Waits until the piece may run."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self.rotation.add(who, mine)
        if not self.is_due:
            self.is_due = True
            loop.call_soon(self._wake, loop)
        await mine

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        while (chosen := self.rotation.next()) is not None:
            if not chosen[1].done():  # otherwise its caller has left
                chosen[1].set_result(None)
                break
        self.is_due = bool(self.rotation)
        if self.is_due:
            loop.call_soon(self._wake, loop)
