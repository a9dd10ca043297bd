"""The story of the credit check: asked once, decided once."""

from __future__ import annotations

from examples.credit import credit
from examples.credit.credit import OrderDecided, OrderPlaced, ScoreRequested
from moneystate.testing import Bench

MINUTE = 60_000


def test_large_orders_wait_for_a_score() -> None:
    bench = Bench(credit.service)
    bench.send(OrderPlaced("a", "eve", 900, MINUTE), OrderPlaced("b", "eve", 9_000, MINUTE))
    assert bench.out(credit.decided) == [OrderDecided("a", "ACCEPTED")]
    assert bench.ask(credit.waiting, "b") == [ScoreRequested("b", "eve", MINUTE)]

    bench.reply(credit.scores, {"score": 640})
    assert bench.out(credit.decided)[-1] == OrderDecided("b", "ACCEPTED")
    assert bench.ask(credit.waiting, "b") == []

    bench.send(OrderPlaced("c", "bob", 9_000, 2 * MINUTE), OrderPlaced("d", "sue", 9_000, 2 * MINUTE))
    (c, d) = bench.out(credit.scores.requests)[-2:]
    bench.reply(credit.scores, to=c)  # the service does not know the customer
    bench.reply(credit.scores, to=d, failed=True)
    assert bench.out(credit.decided)[-2:] == [OrderDecided("c", "REFUSED"), OrderDecided("d", "MANUAL")]
    bench.end()
