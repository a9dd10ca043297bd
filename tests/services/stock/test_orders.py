"""Each end that an order over several pools can have, with the ledger beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moneystate.api.service import Service
from moneystate.testing import Bench
from moneystate.testing.generated import check_batches
from moneystate.testing.purity import findings
from services.stock.config import DAY, Config
from services.stock.orders import OrdersService, orders
from services.stock.records import (
    Cancelled,
    Confirm,
    Confirmed,
    Count,
    Expired,
    OrderCancelled,
    OrderConfirmed,
    OrderLine,
    OrderPlaced,
    Reserve,
    Reserved,
    Short,
)
from services.stock.service import StockService, stock

T = 1_700_000_000_000
TTL = 10_000


class Shop:
    """Two pools with 5 of `a` each."""

    def __init__(self) -> None:
        self.ledger = StockService(Config())
        self.saga = OrdersService(Config())
        self.bench = Bench(self.ledger.service, self.saga.service)
        self.after(Count("n1", "north", T, "a", 5), Count("n2", "south", T, "a", 5))

    def after(self, *records: Any) -> None:
        """Send, and let all that follows happen."""
        self.bench.send(*records)
        self.bench.out(self.saga.results)

    def results(self) -> list[tuple[str, str, str | None]]:
        return [(result.order_id, result.status, result.reason) for result in self.bench.out(self.saga.results)]

    def events(self) -> list[tuple[type, str]]:
        events = self.bench.out(*self.ledger.events.values())
        return [(type(event), event.pool) for event in events if hasattr(event, "reservation_id")]

    def commands(self) -> list[str]:
        return [f"{c.command_id} {c.pool}" for c in self.bench.out(*self.saga.commands.values())]


def placed(id: str, t: int, north: int, south: int, ttl_ms: int = TTL) -> OrderPlaced:
    return OrderPlaced(id, [OrderLine("a", north, "north"), OrderLine("a", south, "south")], ttl_ms, T + t)


def test_all_pools_accept_and_confirm() -> None:
    shop = Shop()
    shop.after(placed("1", 10, 2, 3))
    assert shop.results() == [("1", "HELD", None)]
    shop.after(OrderConfirmed("1", T + 20), OrderCancelled("1", T + 21))
    assert shop.results()[1:] == [("1", "CONFIRMED", None)]
    assert shop.bench.out(shop.saga.results)[1].confirmed == ["north", "south"]
    assert shop.events() == [(Reserved, "north"), (Reserved, "south"), (Confirmed, "north"), (Confirmed, "south")]
    commands = shop.bench.out(*shop.saga.commands.values())
    assert isinstance(commands[0], Reserve)
    assert (commands[0].time, commands[0].reservation_id, commands[0].order_id) == (T + 10, "1", "1")
    assert commands[2] == Confirm("1/confirm", "north", T + 20, "1", None)
    assert shop.bench.count("ignored_decisions") == 1
    shop.bench.end()


def test_one_pool_refuses_and_the_others_get_cancel() -> None:
    shop = Shop()
    shop.after(placed("1", 10, 6, 3))
    assert shop.results() == [("1", "REJECTED", "INSUFFICIENT")]
    assert shop.bench.out(shop.saga.results)[0].short == [Short("a", 6, 5)]
    assert shop.commands() == ["1/reserve north", "1/reserve south", "1/cancel south"]
    assert shop.events() == [(Reserved, "south"), (Cancelled, "south")]
    shop.bench.end()


def test_a_decision_waits_until_all_pools_hold() -> None:
    shop = Shop()
    shop.after(placed("1", 10, 1, 1), OrderCancelled("1", T + 10), OrderConfirmed("1", T + 11))
    assert shop.results() == [("1", "HELD", None), ("1", "CANCELLED", None)]
    assert shop.commands()[2:] == ["1/cancel north", "1/cancel south"]
    shop.bench.end()


def test_an_expired_pool_loses_the_order() -> None:
    shop = Shop()
    shop.after(placed("1", 10, 1, 1, ttl_ms=100))
    shop.after(Count("later", "north", T + 500, "a", 9))
    assert shop.results() == [("1", "HELD", None), ("1", "LOST", "EXPIRED")]
    assert shop.commands()[2:] == ["1/cancel south"]
    assert shop.events()[2:] == [(Expired, "north"), (Expired, "south")]
    shop.bench.end()


def test_a_shortage_loses_the_order_and_the_rest_gets_cancel() -> None:
    shop = Shop()
    shop.after(placed("1", 10, 2, 3))
    shop.after(Count("fewer", "south", T + 20, "a", 2))
    assert shop.results() == [("1", "HELD", None), ("1", "LOST", "SHORTAGE")]
    assert shop.commands()[2:] == ["1/cancel north"]
    assert shop.events()[2:] == [(Cancelled, "south"), (Cancelled, "north")]
    shop.bench.end()


def test_a_confirm_that_comes_too_late_for_one_pool_undoes_nothing() -> None:
    shop = Shop()
    shop.after(placed("1", 10, 2, 3))
    shop.after(OrderConfirmed("1", T + 20), Count("fewer", "south", T + 21, "a", 2))
    assert shop.results() == [("1", "HELD", None), ("1", "LOST", "ALREADY_CANCELLED")]
    assert shop.bench.out(shop.saga.results)[1].confirmed == ["north"]
    assert shop.commands()[2:] == ["1/confirm north", "1/confirm south"]
    shop.bench.end()


def test_an_order_without_lines_is_rejected() -> None:
    shop = Shop()
    shop.after(OrderPlaced("1", [], TTL, T + 10))
    assert shop.results() == [("1", "REJECTED", "INVALID")]
    shop.bench.end()


def test_an_order_that_no_pool_could_answer_is_a_dead_letter() -> None:
    """The ledger makes dead letters of commands with such texts, so nobody would ever answer them."""
    shop = Shop()
    orders = [("x" * 993, [OrderLine("a", 1, "north")]), ("1", [OrderLine("a", 1, "p" * 1_001)])]
    orders += [("2", [OrderLine("s" * 1_001, 1, "north")])]
    orders += [("3", [OrderLine(f"{n}{'s' * 990}", 1, "north") for n in range(101)])]
    for n, (id, lines) in enumerate(orders):
        shop.after(OrderPlaced(id, lines, TTL, T + 10 + n))
    assert shop.bench.dead_letters() == ["text_too_long"] * 4
    assert shop.commands() == []
    fits = [OrderLine(f"{n:3}{'s' * 980}", 1, "p" * 1_000) for n in range(48)]
    shop.after(OrderPlaced("x" * 992, [OrderLine("a", 1, "north"), *fits], TTL, T + 20))
    assert shop.results() == [("x" * 992, "REJECTED", "INSUFFICIENT")]
    assert shop.bench.dead_letters() == ["text_too_long"] * 4
    shop.bench.end()


def test_an_ended_order_is_known_for_its_retention_and_then_leaves_nothing() -> None:
    shop = Shop()
    end = 10 + 30 * DAY
    shop.after(OrderPlaced("1", [], TTL, T + 10), placed("1", 11, 1, 1), OrderConfirmed("1", T + 12))
    shop.after(placed("1", end - 1, 1, 1))
    assert (shop.bench.count("known_orders"), shop.bench.count("ignored_decisions")) == (2, 1)
    assert shop.commands() == []
    assert shop.bench.dead_letters() == ["order_conflict"] * 2
    shop.after(placed("1", end, 1, 1))
    assert shop.results()[1:] == [("1", "HELD", None)]
    shop.bench.end()
    assert list(shop.bench.entries(shop.saga.service)) == []


def test_an_order_or_a_decision_that_is_dropped_without_being_known_is_a_dead_letter() -> None:
    shop = Shop()
    shop.after(OrderConfirmed("1", T + 9), placed("1", 10, 2, 3), placed("1", 11, 2, 3), placed("1", 12, 2, 4))
    assert shop.bench.dead_letters() == ["unknown_order", "order_conflict"]
    assert (shop.bench.count("known_orders"), shop.bench.count("ignored_decisions")) == (2, 1)
    shop.after(OrderCancelled("1", T + 20), OrderConfirmed("1", T + 21), placed("1", 22, 2, 3), placed("1", 23, 9, 9))
    assert shop.results() == [("1", "HELD", None), ("1", "CANCELLED", None)]
    assert shop.bench.dead_letters() == ["unknown_order", "order_conflict", "order_conflict"]
    shop.bench.end()


@pytest.mark.parametrize("make", [stock, orders])
def test_the_services_depend_on_the_logs_alone(make: Callable[[Config], Service[Config]]) -> None:
    service = make(Config())
    assert findings(service) == []
    check_batches(service, 200, 1)
