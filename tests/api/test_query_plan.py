"""Declared queries made ready to be asked from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import moneystate as ms
from moneystate.engine.avro import Malformed
from moneystate.errors import ServiceError
from moneystate.runtime.plan import Plan
from tests.api.services import market
from tests.api.services.market import Cheapest, Moved, Seller


def plan_with(query: Callable[..., Any]) -> Plan:
    service = ms.Service("asked")
    moved = service.input("moved", Moved, key="seller", time="at")
    service.on(moved, service.value("seller", Seller))(lambda ctx, e, seller: None)
    service.query(query)
    return Plan(service)


def test_arguments_come_by_name_and_defaults_may_be_left_out() -> None:
    cheapest = Plan(market.service).queries["cheapest"]
    assert cheapest.parse_arguments('{"item": "x"}') == {"item": "x", "most": 3}
    assert cheapest.parse_arguments('{"most": 7, "item": "x"}') == {"item": "x", "most": 7}
    for wrong in ("", "{}", '{"item": null}', '{"item": "x", "most": "7"}', '["x"]', "nonsense"):
        with pytest.raises(Malformed):
            cheapest.parse_arguments(wrong)
    assert cheapest.description == "The cheapest offers of an item."
    result = cheapest.result_of([Cheapest("a", "x", 5)])
    assert cheapest.result.decode(cheapest.result.encode(result)) == result


def untyped(view: ms.View, item) -> int:  # type: ignore[no-untyped-def]
    return 0


def no_result(view: ms.View, item: str):  # type: ignore[no-untyped-def]
    return 0


def pairs(view: ms.View) -> list[tuple[str, int]]:
    return []


def any_number(view: ms.View, *items: str) -> int:
    return 0


def no_view() -> int:
    return 0


@pytest.mark.parametrize("query", [untyped, no_result, pairs, any_number, no_view])
def test_a_query_that_nobody_could_ask_says_why_in_one_line(query: Callable[..., Any]) -> None:
    plan = plan_with(query)
    with pytest.raises(ServiceError) as refused:
        plan.queries  # noqa: B018
    told = str(refused.value)
    assert told.startswith(f"service 'asked': query {query.__name__!r}")
    assert " Do: " in told
    assert "\n" not in told
