"""Differences of two states in the terms of the service: its keys, records and fields."""

from __future__ import annotations

import io

from rich.console import Console

from examples.orders import orders
from examples.orders.orders import OrderPlaced
from moneystate.cli.facts_view import as_json, print_differences
from moneystate.ports.state import Fact
from moneystate.runtime.state_model import ServiceState
from moneystate.savepoint.compare import compare_facts
from moneystate.testing import Bench
from tests.api.handover import stored

STATE = ServiceState("examples.orders.orders:service")


def facts_of(cents: int, *others: str) -> list[Fact]:
    bench = Bench(orders.service, bound_ms=0, key_groups=1)
    bench.send(OrderPlaced("a", "eve", cents, 1_000), *[OrderPlaced(id, "bob", 1, 2_000) for id in others])
    return [fact for key, value in stored(bench).items() for fact in STATE.facts(key, value, 0, {})]


def test_what_differs_is_told_once_for_each_key() -> None:
    one, other = facts_of(700), facts_of(900, "b")
    listed = compare_facts(lambda _: one, lambda _: other, 1, 9).first
    written = io.StringIO()
    print_differences(
        Console(file=written, soft_wrap=True, highlight=False), STATE, listed, "the checkpoint", "the replay"
    )
    lines = written.getvalue().splitlines()
    assert [line for line in lines if line.startswith("key ")] == ["key a", "key b"]
    assert "  value order: cents 700 in the checkpoint, 900 in the replay" in lines
    (whole,) = [line for line in lines if line.startswith("  value order: only in the replay: ")]
    assert '"customer": "bob"' in whole or '"customer":"bob"' in whole
    assert any(line.startswith("  timer overdue: only in the replay: {") and "due" in line for line in lines)


def test_json_has_the_records() -> None:
    one, other = facts_of(700), facts_of(900)
    (difference,) = [d for d in compare_facts(lambda _: one, lambda _: other, 1, 9).first if d.kind == "value order"]
    explained = as_json(STATE, difference)
    assert (explained["one_record"]["cents"], explained["other_record"]["cents"]) == (700, 900)


def test_a_buffered_event_is_shown_as_its_record() -> None:
    event = Bench(orders.service).plan.codec(OrderPlaced, "").encode(OrderPlaced("a", "eve", 7, 1_000))
    view = STATE.fact_view("buffered", (1_000, event))
    assert view is not None
    assert (view["event"]["orderId"], view["event"]["cents"]) == ("a", 7)
