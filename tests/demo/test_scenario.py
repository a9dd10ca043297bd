"""The scenario's file, as it is shipped and as it might be spoilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.demo import scenario
from services.demo.scenario import Enriched
from services.errors import ConfigError

MONEY = {
    "step": 1,
    "title": "money",
    "topic": "wallet-events",
    "key": "u",
    "event": {"type": "PaymentEvent", "id": "m", "processedAt": "2020-12-16T00:03:00Z"},
}
ADVANCE = {"advanceTo": "2020-12-16T00:10:00Z"}
NOTHING = {"step": 1, "expect": None}


def lines(*entries: object) -> list[str]:
    return [json.dumps(entry) for entry in entries]


def test_the_shipped_scenario_is_the_one_that_the_reference_model_holds() -> None:
    model = Path(__file__).parents[1] / "reference" / "scenario.jsonl"
    assert scenario.SHIPPED.read_bytes() == model.read_bytes()


def test_the_shipped_scenario_has_twelve_steps_in_four_chapters() -> None:
    chapters = scenario.load()
    assert [chapter.steps for chapter in chapters] == [[1, 2, 3, 4, 5, 6], [7], [8, 9, 10, 11], [12]]
    assert [chapter.wanted for chapter in chapters] == [3, 1, 3, 1]
    promised = {p.step for chapter in chapters for p in chapter.promises}
    money = {s.step for chapter in chapters for s in chapter.sends if s.money_id}
    assert promised == money


def test_a_promise_as_the_file_has_it() -> None:
    first = scenario.load()[0].promises[0]
    assert first.outcome == Enriched(
        money_id="99afd170-babe-4e97-9044-e3d0a2385841",
        status="JOINED",
        client_country="CA",
        user_info=("1978", "ES"),
        first_occurrence=True,
    )
    assert not first.asks_service
    assert first.without_service() == first


def test_without_a_service_a_lookup_fails_and_all_else_stays() -> None:
    late = next(p for p in scenario.load()[2].promises if p.step == 8)
    assert late.asks_service
    without = late.without_service().outcome
    assert without is not None
    assert (without.status, without.client_country) == ("LOOKUP_FAILED", None)
    assert (without.user_info, without.first_occurrence) == (("1978", "PO"), False)


def test_nothing_promised_stays_nothing_without_a_service() -> None:
    (chapter,) = scenario.parse(lines(MONEY, ADVANCE, NOTHING))
    assert [p.without_service().outcome for p in chapter.promises] == [None]


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        ([MONEY, {"step": 1}], 2),
        ([{**MONEY, "event": {"type": "PaymentEvent"}}], 1),
        ([{"step": 1, "event": {}}], 1),
        ([["no", "object"]], 1),
        ([MONEY, NOTHING], 2),
        ([NOTHING], 1),
        ([MONEY, ADVANCE, {"step": 2, "expect": None}], 3),
        ([MONEY, ADVANCE, {"step": 1, "expect": {}}], 3),
    ],
)
def test_a_line_out_of_form_or_place_is_named(entries: list[object], line: int) -> None:
    with pytest.raises(ConfigError, match=f"line {line}:"):
        scenario.parse(lines(*entries))


def test_events_after_the_last_heartbeat_could_never_come_out() -> None:
    with pytest.raises(ConfigError):
        scenario.parse(lines(MONEY, ADVANCE, NOTHING, MONEY))
