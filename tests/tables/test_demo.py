"""`moneystate demo tables`: its service, and all of it as a user runs it, which no lower level has."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.tables.demo.service import Discount, Order, Price, Priced, discounts, priced, prices, pricing
from moneystate.testing import Bench
from tests.demo.running import check_demo


def test_an_order_meets_the_rows_that_hold_when_it_comes() -> None:
    bench = Bench(pricing)
    bench.load(prices, {"tea": Price("tea", 300, 1)})
    bench.load(discounts, {"ann": Discount("ann", 10, 1)})
    bench.rows(prices, {"tea": Price("tea", 400, 2)}, arrival_ms=5_000)
    bench.rows(discounts, {"ann": None}, arrival_ms=7_000)
    bench.send(Order("1", "tea", "ann"), arrival_ms=4_000)
    bench.send(Order("2", "tea", "ann"), arrival_ms=6_000)
    bench.send(Order("3", "tea", "ann"), Order("4", "coffee", "ann"), arrival_ms=8_000)
    assert bench.out(priced) == [
        Priced("1", 270, 1, 10, 1), Priced("2", 360, 2, 10, 1), Priced("3", 400, 2, None, None),
        Priced("4", None, None, None, None),
    ]  # fmt: skip


@pytest.mark.long
def test_each_order_meets_its_rows_and_nothing_is_left_over(tmp_path: Path) -> None:
    check_demo("tables", tmp_path, "8 orders held.")
