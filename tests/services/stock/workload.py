"""Commands at random that reach every rule: few pools, skus and ids, retries, and times at and beside every edge."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

from services.stock.config import Config
from services.stock.records import Adjust, Cancel, Command, Confirm, Count, Line, Reserve

START = 1_700_000_000_000
SHORT = Config(command_retention_ms=700, reservation_retention_ms=900)
POOLS = ("north", "south", "ü")
MOST = 10**9
SKUS = ("a", "b", "ab", "1:a:", "c")


class Workload:
    def __init__(self, seed: int, config: Config = SHORT) -> None:
        self.chance = random.Random(seed)
        self.config = config
        self.now = START
        self.sent: list[Command] = []
        self.edges: list[int] = []
        self.number = 0

    def commands(self, count: int) -> list[Command]:
        while len(self.sent) < count:
            self._pass_time()
            command = self._retry() if self.sent and self.chance.random() < 0.12 else self._new()
            self.sent.append(command)
            self.edges.append(self.now + self.config.command_retention_ms)
        return self.sent

    def _pass_time(self) -> None:
        """Mostly a little, now and then to one of the coming edges, or beside it."""
        self.edges = [edge for edge in self.edges if edge > self.now + 1]
        if self.edges and self.chance.random() < 0.15:
            self.now = max(self.now, self.chance.choice(sorted(self.edges)[:4]) + self.chance.choice((-1, 0, 0, 1)))
        else:
            self.now += self.chance.choice((0, 0, 1, 2, 8))

    def _time(self) -> int:
        """Some are late."""
        return self.now - (self.chance.choice((1, 40, 400)) if self.chance.random() < 0.15 else 0)

    def _retry(self) -> Command:
        earlier = self.chance.choice(self.sent[-60:])
        kind = self.chance.random()
        if kind < 0.75:
            return replace(earlier, time=self._time())
        if isinstance(earlier, Reserve) and kind < 0.9:
            return replace(earlier, time=self._time(), ttl_ms=earlier.ttl_ms + 1)
        return replace(self._new(), command_id=earlier.command_id, pool=earlier.pool)

    def _new(self) -> Command:
        self.number += 1
        id, pool, time = f"c{self.number}", self.chance.choice(POOLS), self._time()
        kind = self.chance.random()
        if kind < 0.12:
            return Adjust(id, pool, time, self._sku(), self._one(5, 8, 20, -3, -6, rarely=(0, MOST + 1, -MOST - 1)))
        if kind < 0.26:
            return Count(id, pool, time, self._sku(), self._one(0, 3, 6, 9, 20, rarely=(-1, MOST + 1)))
        if kind < 0.60:
            return self._reserve(id, pool, time)
        pool, reservation, skus = self._reserved(pool)
        if kind < 0.86:
            return Confirm(id, pool, time, reservation, self._quantities(skus))
        return Cancel(id, pool, time, reservation)

    def _reserve(self, id: str, pool: str, time: int) -> Reserve:
        reservation = f"r{self.number}"
        if self.chance.random() < 0.15:
            pool, reservation, _ = self._reserved(pool)
        lines = [Line(self._sku(), self._one(1, 1, 2, 2, 3, 5, rarely=(0, -2, MOST))) for _ in range(self._lines())]
        ttl_ms = self._one(1, 50, 200, 500, 800, rarely=(0, 10**11 + 1))
        policy: Literal["ALL", "PARTIAL"] = self.chance.choice(("ALL", "ALL", "PARTIAL"))
        order = self.chance.choice((None, f"o{self.number % 7}"))
        self.edges += [self.now + ttl_ms, self.now + ttl_ms + self.config.reservation_retention_ms]
        return Reserve(id, pool, time, reservation, lines, ttl_ms, order, policy)

    def _lines(self) -> int:
        return self._one(1, 1, 1, 2, 3, rarely=(0,))

    def _reserved(self, pool: str) -> tuple[str, str, list[str]]:
        """Pool and id of a reservation that somebody asked for, with its skus; now and then one of nobody's."""
        earlier = [e for e in self.sent[-40:] if isinstance(e, Reserve)]
        if not earlier or self.chance.random() < 0.05:
            return pool, f"r{self.number}", []
        e = self.chance.choice(earlier)
        return e.pool, e.reservation_id, [line.sku for line in e.lines]

    def _sku(self) -> str:
        return self.chance.choice(SKUS)

    def _one(self, *often: int, rarely: tuple[int, ...]) -> int:
        return self.chance.choice(rarely if self.chance.random() < 0.03 else often)

    def _quantities(self, skus: list[str]) -> dict[str, int] | None:
        if self.chance.random() < 0.4:
            return None
        quantities = {sku: self._one(0, 1, 1, 2, rarely=(-1, MOST + 1)) for sku in skus}
        if self.chance.random() < 0.1:
            quantities[self._sku()] = 1
        return quantities
