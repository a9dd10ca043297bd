"""The scenario's file, as it is shipped and as it might be spoilt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from moneystate.errors import ConfigError
from services.enrichment.demo import scenario
from services.enrichment.demo.scenario import Enriched

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


def test_what_the_service_says_is_promised_where_it_is_asked_and_nowhere_else() -> None:
    third = scenario.load()[2]
    told = third.with_service(lambda session: f"country of {session}")
    assert [p.step for p in third.promises if p.asks_service] == [8, 11]
    for before, after in zip(third.promises, told.promises, strict=True):
        assert before.outcome is not None
        assert after.outcome is not None
        if before.asks_service:
            sent = next(s for s in third.sends if s.step == before.step)
            assert after.outcome == replace(before.outcome, client_country=f"country of {sent.event['userSessionId']}")
            assert after.outcome.status == "LOOKED_UP"
        else:
            assert after == before


def test_nothing_promised_stays_nothing_whatever_the_service_says() -> None:
    (chapter,) = scenario.parse(lines(MONEY, ADVANCE, NOTHING))
    assert [p.outcome for p in chapter.with_service(lambda _: "CA").promises] == [None]


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
