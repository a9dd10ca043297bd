"""Several record types in one output topic, and several entries of a map read with the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import moneystate as ms
from moneystate.engine.state import MemoryState
from moneystate.testing import Bench


@dataclass(frozen=True)
class Sold:
    shop: str
    goods: list[str]
    at: ms.Millis


@dataclass(frozen=True)
class Opened:
    shop: str
    good: str


@dataclass(frozen=True)
class Repeated:
    shop: str
    good: str
    times: int


@dataclass(frozen=True)
class Sales:
    times: int


service = ms.Service("shops")
sold = service.input("sold", Sold, key="shop", time="at")
opened = service.output("sales", Opened, key="shop")
repeated = service.output("sales", Repeated, key="shop")
sales = service.map("sales", Sales)


@service.on(sold, sales.at(lambda e: e.goods))
def sell(ctx: ms.Context[None], e: Sold, sales: ms.Entries[Sales]) -> None:
    for good in e.goods:
        known = sales.get(good)
        if known is None:
            ctx.emit(opened, Opened(ctx.key, good))
        else:
            ctx.emit(repeated, Repeated(ctx.key, good, known.times))
        sales.put(good, Sales(1 if known is None else known.times + 1))


def test_a_topic_has_outputs_of_several_types_in_one_order() -> None:
    bench = Bench(service)
    bench.send(Sold("s", ["a", "b"], 1), Sold("s", ["b", "a"], 2))
    everything = [Opened("s", "a"), Opened("s", "b"), Repeated("s", "b", 1), Repeated("s", "a", 1)]
    assert bench.out(opened, repeated) == everything
    assert bench.out(repeated) == everything[2:]
    assert bench.plan.streams == ["sales"]
    assert bench.plan.outputs[opened].stream == bench.plan.outputs[repeated].stream
    bench.end()


class CountedReads:
    """A state that counts the rounds in which entries of maps are read."""

    def __init__(self) -> None:
        self.state = MemoryState()
        self.rounds = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if any(key.startswith(b"m") for key in keys):
            self.rounds += 1
        return self.state.get_many(keys)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)


def test_entries_that_a_function_names_are_read_in_one_round() -> None:
    bench = Bench(service, cuts="one", key_groups=1)
    counted = CountedReads()
    bench.run.sim.states[0] = cast("Any", counted)
    bench.send(*[Sold("s", [f"g{n}", f"g{n + 1}"], n) for n in range(50)])
    assert len(bench.out(opened)) == 51
    assert counted.rounds == 1
