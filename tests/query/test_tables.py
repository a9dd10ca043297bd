"""A query of a server reads a table's rows by key and by index, as they hold at the version's time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import moneystate as ms
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench
from tests.query.in_memory import Served

SECOND_MS = 1_001  # the time of the second version that `Served` publishes


@dataclass(frozen=True)
class Price:
    group: str
    cents: int
    valid_from: ms.Millis | None = None

    def is_dear(self) -> bool:
        return self.cents >= 100


@dataclass(frozen=True)
class Placed:
    order: str
    time: ms.Millis


service = ms.Service("shop", rules=None)
placed = service.input("placed", Placed, key="order", time="time")
prices = service.table("prices", Price, valid_from="valid_from")
by_group = service.index("by_group", of=prices, by=lambda p: [p.group, "dear"] if p.is_dear() else p.group)
service.on(placed, prices)(lambda ctx, e, prices: None)


@service.query
def price(view: ms.View, sku: str) -> Price | None:
    return view.table(prices).get(sku)


@service.query
def of_group(view: ms.View, group: str) -> list[str]:
    return [sku for sku, _ in view.table(prices).find(by_group, group)]


def test_rows_by_key_and_by_index() -> None:
    b = Bench(service, bound_ms=0, partitions=2)
    b.rows(prices, {"a": Price("x", 1), "b": Price("x", 200), "c": Price("y", 3)}, arrival_ms=100)
    b.rows(prices, {"a": Price("y", 2, valid_from=SECOND_MS)}, arrival_ms=200)
    b.advance(300)
    with Served(b) as served:

        def ask(name: str, argument: Any) -> Any:
            names = {"price": "sku", "of_group": "group"}
            request = s.CallRequest(query=name, arguments=json.dumps({names[name]: argument}))
            return json.loads(served.call("State.Call", request).result.json)

        assert [ask("of_group", group) for group in ("x", "y", "dear", "z")] == [["a", "b"], ["c"], ["b"], []]
        b.rows(prices, {"b": None, "d": Price("y", 4)}, arrival_ms=400)
        b.advance(500)
        served.update()
        assert [ask("of_group", group) for group in ("x", "y", "dear", "z")] == [[], ["a", "c", "d"], [], []]
        assert ask("price", "a")["cents"] == 2
        assert ask("price", "b") is None
    b.end()
