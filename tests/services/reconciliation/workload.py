"""Made-up logs of two stores that lose, delay, repeat and split events."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from services.reconciliation.config import Config, InputConfig, Pair, Side
from services.reconciliation.records import InventoryItem
from tests.services.reconciliation.reference import Reference, RefPair

S = 1_000
START = 1_700_000_000_000


def config() -> Config:
    announced, arrived = Side("shop", "PRODUCER_EXPECTED"), Side("lake", "ACTUAL")
    return Config(
        inputs=(InputConfig("announced", bound_ms=5 * S), InputConfig("arrived", bound_ms=12 * S)),
        pairs=(
            Pair("shop-lake", announced, arrived, n_ms=10 * S, m_ms=40 * S, o_ms=20 * S, report_duplicates=True),
            Pair("lake-copy", arrived, Side("copy", "ACTUAL"), n_ms=5 * S, m_ms=5 * S, o_ms=7 * S, retention_ms=90 * S),
            Pair("now", announced, Side("copy", "ACTUAL"), n_ms=0, m_ms=13 * S, o_ms=4 * S),
            Pair("asked", Side("lake", "CONSUMER_EXPECTED"), Side("shop", "ACTUAL"), n_ms=S, m_ms=2 * S, o_ms=S),
        ),
    )


def reference(settings: Config) -> Reference:
    pairs = [
        RefPair(
            p.name, (p.expected.store, p.expected.role), (p.actual.store, p.actual.role), p.n_ms, p.m_ms, p.o_ms,
            p.report_duplicates,
        )
        for p in settings.pairs
    ]  # fmt: skip
    bounds = {given.topic: given.bound_ms or 0 for given in settings.inputs}
    return Reference(pairs, bounds, {given.topic: n for n, given in enumerate(settings.inputs)})


@dataclass(frozen=True)
class Beat:
    """A heartbeat of a partition."""

    time_ms: int


Line = tuple[str, int, InventoryItem | Beat]  # topic, partition


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Workload:
    """Some minutes of events, in the order in which they are written. `stops`: one side stops and returns in any case,
    not only in some logs."""

    def __init__(self, seed: int, events: int = 60, partitions: int = 2, stops: bool = False) -> None:
        self.random = random.Random(seed)
        self.partitions = partitions
        self.written: list[tuple[float, str, InventoryItem | Beat]] = []
        self.made: list[InventoryItem] = []
        for n in range(events):
            self._event(n, START + n * self.random.choice([0, 300, 1000, 1000, 2000]))
        stopped = self.random.random() < 0.4
        since = START + self.random.randrange(60) * S
        until = since + self.random.randrange(80) * S
        if stopped or stops:
            self._stop("arrived", since, until)

    def lines(self) -> list[Line]:
        self.written.sort(key=lambda w: w[0])
        return [(topic, self.random.randrange(self.partitions), record) for _, topic, record in self.written]

    def _stop(self, topic: str, since: int, until: int) -> None:
        """A side is away; what it wrote comes after its return, and heartbeats stand for it."""
        self.written = [
            (until + (time - since) / 100 if into == topic and since <= time < until else time, into, record)
            for time, into, record in self.written
        ]
        self.written.extend([(time, topic, Beat(time - 5 * S)) for time in range(since, until, 5 * S)])

    def _event(self, n: int, time: int) -> None:
        chance = self.random
        source = chance.choice(["eu", 'ü"', "us"])
        id = f"e{n % chance.choice([12, 45, 60])}"
        parts = chance.choice([1, 1, 1, 2, 3])
        if chance.random() < 0.9:
            note = chance.choice([None, None, "n"])
            self._write(
                "announced", InventoryItem("shop", source, id, "PRODUCER_EXPECTED", time, parts=parts, note=note)
            )
        if chance.random() < 0.06:
            self._write("announced", InventoryItem("elsewhere", source, id, "ACTUAL", time))
        if chance.random() < 0.06:
            self._write("arrived", InventoryItem("lake", source, id, "CONSUMER_EXPECTED", time))
            if chance.random() < 0.7:
                self._write("arrived", InventoryItem("shop", source, id, "ACTUAL", time + chance.choice([0, 1])))
        for number in range(parts + chance.choice([0, 0, 0, 0, 1, 2])):
            if chance.random() < 0.85:
                self._actual("lake", source, id, time, number, split=parts > 1)
        if chance.random() < 0.8:
            self._actual("copy", source, id, time, 0, split=False)

    def _actual(self, store: str, source: str, id: str, time: int, number: int, split: bool) -> None:
        chance = self.random
        time += chance.choice([0, 0, 0, 0, 1, 9 * S, -9 * S, -3 * S])
        filtered = chance.random() < 0.05
        if split or number:
            origin = chance.choice([None, source])
            own_source = source if origin is None else chance.choice(["split", source])
            item = InventoryItem(
                store, own_source, f"{id}.{number}", "ACTUAL", time, derived_from=id, derived_from_source=origin,
                filtered=filtered,
            )  # fmt: skip
        else:
            item = InventoryItem(store, source, id, "ACTUAL", time, filtered=filtered)
        self._write("arrived", item)

    def _write(self, topic: str, item: InventoryItem) -> None:
        chance = self.random
        times = chance.choice([1] * 12 + [2, 3])
        for _ in range(times):
            delay = chance.choice([0, 0, 0, 1, 2, 4, 8, 9, 10, 11, 14, 25, 39, 40, 41, 70, 100]) * S
            self.written.append((item.event_time + delay + chance.random(), topic, item))
            if chance.random() < 0.5:
                note = chance.choice([None, "again"])
                item = InventoryItem(
                    item.store, item.source, item.event_id, item.role, item.event_time + chance.choice([0, 0, 3 * S]),
                    item.written_at, item.parts, item.derived_from, item.derived_from_source, item.filtered, note,
                )  # fmt: skip
