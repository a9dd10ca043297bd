"""Mistakes that mypy strict finds: `tests/api/test_wrong_services.py` runs it here. Nothing imports this module."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Placed:
    order_id: str
    placed_at: ms.Millis


@dataclass(frozen=True)
class Closed:
    order_id: str


@dataclass
class Order:
    cents: int = 0


@dataclass
class Line:
    n: int = 0


@dataclass(frozen=True)
class Rules:
    wait_ms: int = 5


service = ms.Service("wrong", rules=Rules())
placed = service.input("orders", Placed, key="order_id", time="placed_at")
closings = service.input("closings", Closed, key="order_id", time=lambda e: len(e.order_id))
closed = service.output("closed", Closed, key="order_id")
order = service.value("order", Order)
lines = service.map("lines", Line)
due = service.timer("due")
line_due = service.timer("line_due", of=lines)
by_cents = service.index("by_cents", order, lambda o: o.cents)
by_none = service.index("by_none", order, lambda o: o.euros)  # E
by_n = service.index("by_n", lines, lambda line: ("n", line.n))
by_wrong_map = service.index("by_wrong_map", lines, lambda line: line.cents)  # E


@service.on(placed, order)
def right(ctx: ms.Context[Rules], e: Placed, order: Order) -> None:
    ctx.emit(closed, Closed(e.order_id))
    ctx.at(due, ctx.now + ctx.rules.wait_ms)
    ctx.at(line_due, 5, "a")


@service.on(placed | closings, lines)
def both(ctx: ms.Context[Rules], e: Placed | Closed, lines: ms.Entries[Line]) -> None:
    lines.put("a", Line(1))


@service.on(placed)  # E
def wrong_event(ctx: ms.Context[Rules], e: Closed) -> None: ...


@service.on(placed | closings)  # E
def half_of_the_events(ctx: ms.Context[Rules], e: Placed) -> None: ...


@service.on(placed, order)  # E
def wrong_state(ctx: ms.Context[Rules], e: Placed, order: Line) -> None: ...


@service.on(placed, lines)  # E
def map_as_value(ctx: ms.Context[Rules], e: Placed, lines: Line) -> None: ...


@service.on(placed, order)  # E
def state_forgotten(ctx: ms.Context[Rules], e: Placed) -> None: ...


@service.on(placed)  # E
def wrong_rules(ctx: ms.Context[Order], e: Placed) -> None: ...


@service.on(due)  # E
def timer_with_event(ctx: ms.Context[Rules], e: Placed) -> None: ...


@service.on(line_due)  # E
def map_timer_without_id(ctx: ms.Context[Rules]) -> None: ...


@service.on(placed, lines, order)
def wrong_effects(ctx: ms.Context[Rules], e: Placed, lines: ms.Entries[Line], order: Order) -> None:
    ctx.emit(closed, e)  # E
    ctx.emit(closed, Order())  # E
    lines.put("a", Order())  # E
    ctx.at(line_due, 5)  # E
    ctx.at(due, 5, "a")  # E
    ctx.at(due, "soon")  # E
    order.cents = "many"  # E
    print(ctx.rules.wait)  # E


@service.query
def wrong_query(view: ms.View, cents: int) -> list[str]:
    state = view.get(order, "a")
    print(state.euros)  # E
    return [key for key, _ in view.find(by_cents, "five")]  # E


@service.query
def wrong_map_query(view: ms.View, key: str) -> int:
    pairs: list[tuple[str, Line]] = list(view.find(by_n, ("n",)))  # E
    return sum(line.n for _, _, line in view.range(by_n, low=5)) + len(pairs)  # E
