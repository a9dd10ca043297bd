"""The heat map of completeness in the console, from what the declared query answers."""

from __future__ import annotations

from typing import Any

from moneystate.console.faces import HeatMap, Rows, Spot
from moneystate.records import exact_json
from moneystate.testing import Bench
from moneystate.testing.bench import query_plan
from services.reconciliation.console import board, heat_map
from tests.services.reconciliation.test_completeness import MIN, S, bench, send

START = 1_700_000_040_000  # 2023-11-14T22:14:00Z


def asking(b: Bench) -> Any:
    """As the console asks: through JSON."""

    def ask(name: str, **arguments: Any) -> Any:
        service = b.members[1].plan.service
        query = service.queries[name]
        planned = query_plan(query, service.namespace)
        assert planned is not None
        value = b.ask(query, **arguments)
        return exact_json.loads(planned.result.to_json(planned.result_of(value)))["value"]

    return ask


def test_intervals_are_spots_by_hour_and_minute() -> None:
    b = bench()
    send(b, ("shop", "a", 1), ("shop", "b", 55 * S), ("lake", "a", 1 * S), ("none", "x", 5 * MIN))
    send(b, ("shop", "c", 5 * MIN + 1), ("none", "x", 6 * MIN + 2))
    shown, rows = board(asking(b), {"pair": "p"})
    assert isinstance(shown, HeatMap)
    assert isinstance(rows, Rows)
    assert shown.columns == ["14:00", "19:00"]
    first, last = shown.rows["2023-11-14 22 h"]
    assert first == Spot(
        "50.0", 4, "2023-11-14T22:14:00.000Z: 2 expected, 1 matched, 1 missing, 0 pending, 0 unexpected"
    )
    assert last is not None
    assert (last.text, last.about.endswith("; not final")) == ("0.0*", True)
    assert len(rows.rows) == 2


def test_longer_intervals_are_spots_by_day_or_month() -> None:
    def interval(start: str, end: str, percent: float) -> dict[str, Any]:
        counts = dict.fromkeys(("expected", "matched", "missing", "pending", "unexpected"), 1)
        return {"intervalStart": start, "intervalEnd": end, "percent": percent, "final": True, **counts}

    quarters = [
        interval("2026-01-31T10:15:00Z", "2026-01-31T10:30:00Z", 100.0),
        interval("2026-02-01T10:00:00Z", "2026-02-01T10:15:00Z", 99.95),
    ]
    shown = heat_map("x", quarters)
    assert (list(shown.rows), shown.columns) == (["2026-02-01", "2026-01-31"], ["10:00", "10:15"])
    assert [None if spot is None else spot.level for spot in shown.rows["2026-01-31"]] == [None, 0]
    assert shown.rows["2026-02-01"][0] is not None
    assert shown.rows["2026-02-01"][0].level == 1
    days = heat_map("x", [interval("2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z", 95.0)])
    assert (list(days.rows), days.columns) == (["2026-01"], ["31"])
