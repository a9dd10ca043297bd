from __future__ import annotations

from examples.orders import orders
from examples.orders.orders import Closed, OrderPlaced, PaymentTaken
from moneystate.testing import Bench

MIN = 60_000


def test_an_order_is_paid_once_or_expires() -> None:
    bench = Bench(orders.service, bound_ms=5_000)  # the real engine, codecs and batch cuts
    bench.send(OrderPlaced("a", "eve", 700, MIN), OrderPlaced("b", "eve", 900, MIN), OrderPlaced("c", "eve", -1, MIN))
    bench.send(PaymentTaken("p1", "a", 700, 2 * MIN), PaymentTaken("p1", "a", 700, 2 * MIN))
    bench.send(OrderPlaced("d", "bob", 1, 9 * MIN))
    assert bench.out(orders.closed) == [Closed("a", "PAID", 0)]
    assert bench.dead_letters() == ["not_positive"]
    assert bench.ask(orders.open_cents, "eve") == 900
    bench.end()  # every timer fires
    assert bench.out(orders.closed)[1:] == [Closed("b", "EXPIRED", 900), Closed("d", "EXPIRED", 1)]
