"""One story for each rule (docs/reconciliation.md)."""

from __future__ import annotations

from typing import Any

import pytest

from moneystate.errors import ServiceError
from moneystate.testing import Bench
from services.reconciliation.answers import Difference, Happened, LostItem
from services.reconciliation.config import Config, Pair, Side
from services.reconciliation.keys import key_text
from services.reconciliation.records import Finding, InventoryItem
from services.reconciliation.service import reconciliation

S = 1_000
N, M, INTERVAL, RETENTION = 10 * S, 30 * S, 60 * S, 600 * S
T = 1_700_000_040_000  # an interval begins


def pair(**given: Any) -> Pair:
    sides = {"expected": Side("shop", "PRODUCER_EXPECTED"), "actual": Side("lake", "ACTUAL")}
    times = {"n_ms": N, "m_ms": M, "o_ms": INTERVAL, "retention_ms": RETENTION}
    return Pair(**{"name": "p", **sides, **times, **given})


def bench(*pairs: Pair) -> Bench:
    return Bench(reconciliation(Config(pairs=pairs or (pair(),))), bound_ms=100 * S)


def expected(id: str = "a", after: int = 0, **given: Any) -> InventoryItem:
    return InventoryItem("shop", "eu", id, "PRODUCER_EXPECTED", T + after, **given)


def actual(id: str = "a", after: int = 0, **given: Any) -> InventoryItem:
    return InventoryItem("lake", given.pop("source", "eu"), id, "ACTUAL", T + after, **given)


def told(b: Bench) -> list[tuple[str, str | None, int, str]]:
    """Findings as kind, item, seconds after T, detail."""
    return [(f.kind, f.item_id, (f.decided_at - T) // S, f.detail) for f in b.out(b.service.outputs[0])]


def other(after: int) -> InventoryItem:
    """An item of no pair, which lets time pass."""
    return InventoryItem("elsewhere", "eu", "x", "ACTUAL", T + after)


def test_an_item_on_both_sides_is_no_finding() -> None:
    b = bench()
    b.send(expected(), actual(after=0), other(3600 * S))
    assert told(b) == []
    b.end()
    assert list(b.entries()) == []


def test_rule_1_an_item_that_comes_more_than_m_after_its_time_is_too_late() -> None:
    b = bench()
    b.send(expected("new", after=M + 1 + 100 * S), actual("new", after=M + 1 + 100 * S))
    b.send(expected("late", after=0), expected("just", after=1), actual("just", after=1))
    assert told(b) == [("TOO_LATE", "late", 30, "")]
    (finding,) = b.out(b.service.outputs[0])
    assert (finding.event_time, finding.source, finding.event_id) == (T, "eu", "late")
    assert b.count("too_late") == 1


def test_rule_1_after_the_final_record_of_the_interval_it_is_a_finding_only() -> None:
    b = bench()
    last = INTERVAL + M
    b.send(other(last + 100 * S), expected("on time", after=0), other(last + 1 + 100 * S), expected("after", after=0))
    assert [f[1] for f in told(b)] == ["on time", "after"]
    assert b.count("too_late") == 1
    assert len(b.out(b.service.outputs[1])) == 1


def test_rule_2_the_first_of_one_side_wins_and_an_equal_one_was_resent() -> None:
    b = bench(pair(report_duplicates=True))
    b.send(
        expected(parts=2), expected(parts=2), expected(parts=1, after=1), expected(parts=2, derived_from_source="eu")
    )
    assert (b.count("resent"), b.count("duplicates")) == (2, 1)
    assert told(b) == [("DUPLICATE", "a", 0, "")]
    b.send(actual(), other(20 * S))
    assert told(b)[1:] == [("MISSING", None, 10, "1 of 2")]
    silent = bench()
    silent.send(expected(), expected(after=1), actual(), actual(note="again"))
    assert (told(silent), silent.count("duplicates")) == ([], 2)


def test_rule_3_what_is_not_matched_by_the_end_is_lost_and_an_event_at_the_end_still_counts() -> None:
    b = bench()
    b.send(expected("a"), expected("b"), other(M - 1), actual("b", after=M), other(M + 1))
    by_time: list[tuple[str, str | None, int, str]] = [("MISSING", None, 10, "0 of 1")] * 2
    by_time += [("FOUND", "b", 30, ""), ("TIME_MISMATCH", "b", 30, ""), ("LOST", None, 30, "")]
    assert told(b) == by_time
    assert b.ask(b.service.queries["lost_of"], "p") == [LostItem("p", "eu", "a", T, T + M, 0, 1, None)]
    b.send(other(M + RETENTION + 1))
    assert b.ask(b.service.queries["lost_of"], "p") == []
    assert list(b.entries()) == []


def test_rule_3_the_time_of_the_key_moves_to_the_expected_items() -> None:
    b = bench()
    b.send(actual(after=0), expected(after=5 * S, parts=2), other(M + 5 * S + 1))
    assert told(b) == [("MISSING", None, 15, "1 of 2"), ("LOST", None, 35, "")]


def test_at_one_time_an_event_comes_before_due_and_due_before_end() -> None:
    b = bench(pair(n_ms=M))
    b.send(expected("a"), expected("b"), other(M), actual("b", after=M), other(M + 1))
    assert [f[0] for f in told(b) if f[1] is None] == ["MISSING", "LOST"]
    assert ("TIME_MISMATCH", "b", 30, "") in told(b)


def test_rule_4_all_parts_make_a_match_and_a_part_that_comes_after_due_is_found() -> None:
    b = bench()
    b.send(expected(parts=2), actual("a.1", derived_from="a"), other(N + 1))
    assert told(b) == [("MISSING", None, 10, "1 of 2")]
    b.send(actual("a.2", after=N + 1, derived_from="a", derived_from_source="eu", source="splitter"), other(20 * S))
    assert told(b)[1:] == [("FOUND", "a.2", 10, "")]


def test_rule_4_a_filtered_actual_stands_for_all_parts() -> None:
    b = bench()
    b.send(expected(parts=3), actual(filtered=True), other(M + 1))
    assert told(b) == []


def test_rule_5_unexpected_once_then_explained() -> None:
    b = bench()
    b.send(actual("a.1", derived_from="a"), actual("a.2", derived_from="a"), other(N + 1))
    assert told(b) == [("UNEXPECTED", "a.1", 10, "")]
    b.send(expected(after=N + 1, parts=2), other(50 * S))
    assert told(b)[1:] == [("EXPLAINED", "a", 10, "")]


def test_rule_5_further_actuals_after_a_match_are_unexpected_each() -> None:
    b = bench()
    b.send(actual("a.1", derived_from="a"), actual("a.2", derived_from="a"), actual("a.3", derived_from="a"))
    b.send(expected(), actual("a.4", derived_from="a"), actual("a.4", derived_from="a"))
    assert told(b) == [("UNEXPECTED", f"a.{n}", 0, "") for n in (2, 3, 4)]
    assert b.count("resent") == 1


def test_rule_6_another_time_of_the_event_is_told_once() -> None:
    b = bench()
    b.send(actual(after=2), expected(after=1), actual("other", after=3, derived_from="a"))
    assert told(b) == [("TIME_MISMATCH", "a", 0, ""), ("UNEXPECTED", "other", 0, "")]
    several = bench()
    several.send(
        actual("1", after=2, derived_from="a"), expected(after=1, parts=2), actual("2", after=3, derived_from="a")
    )
    assert told(several) == []


def test_an_item_of_several_pairs_counts_in_each_and_one_of_none_is_counted() -> None:
    b = bench(pair(), pair(name="q", actual=Side("copy", "ACTUAL")))
    b.send(expected(), actual(), other(0), other(M + 1))
    findings = b.out(b.service.outputs[0])
    assert [(f.pair, f.kind) for f in findings] == [("q", "MISSING"), ("q", "LOST")]
    assert b.count("no_pair") == 2


def test_the_record_key_is_a_compact_array_of_texts() -> None:
    b = bench()
    b.send(InventoryItem("shop", 'ü"\\', "é\n", "PRODUCER_EXPECTED", T), other(M))
    b.out(b.service.outputs[0])
    keys = {key for stream, key, _, _ in b.run.sim.outputs if stream == 0}
    assert keys == {'["p","ü\\"\\\\","é\\n"]'.encode()}
    assert key_text("p", 'ü"\\', "é\n").encode() in keys


def test_a_record_is_checked_once_whatever_its_pairs() -> None:
    b = bench(pair(), pair(name="q"))
    codec = b.plan.codec(InventoryItem, "")
    bad = expected(note="x")
    object.__setattr__(bad, "parts", 0)
    lone = other(0)
    object.__setattr__(lone, "parts", -1)
    for item in (bad, lone):
        b._append(b.plan.codes["inventory-items"], 0, codec.encode(item))
    assert b.dead_letters() == ["malformed", "malformed"]
    assert b.count("no_pair") == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"actual": Side("shop", "PRODUCER_EXPECTED")}, {"m_ms": N - 1}, {"n_ms": -1}, {"o_ms": 0}, {"name": ""},
        {"retention_ms": -1},
    ],
)  # fmt: skip
def test_a_pair_that_cannot_be_right_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ServiceError, match=r"^service 'reconciliation': .* Do: "):
        reconciliation(Config(pairs=(pair(**wrong),)))
    with pytest.raises(ServiceError, match="'p' is given 2 times"):
        reconciliation(Config(pairs=(pair(), pair())))


def test_open_differences_come_oldest_first_until_they_are_settled() -> None:
    b = bench()
    b.send(expected("late", after=5), actual("alone", after=3), actual("x", after=1), expected("x", after=1))
    b.send(actual("x2", after=2, derived_from="x"), other(N + 6))
    ask = b.service.queries["differences_of"]
    assert b.ask(ask, "p") == [
        Difference("p", "eu", "x", "UNEXPECTED", "x2", T + 1, T + 2, 2),
        Difference("p", "eu", "alone", "UNEXPECTED", "alone", T + 3, T + 3 + N, 1),
        Difference("p", "eu", "late", "MISSING", None, T + 5, T + 5 + N, 0),
    ]
    assert [d.event_id for d in b.ask(ask, "p", limit=1)] == ["x"]
    assert b.ask(ask, "q") == []
    b.send(expected("alone", after=N + 10), actual("late", after=N + 10))
    assert [d.event_id for d in b.ask(ask, "p")] == ["x"]


def test_the_history_of_an_item_is_told_in_order_for_each_pair() -> None:
    b = bench(pair(), pair(name="q", actual=Side("copy", "ACTUAL")))
    b.send(
        actual(after=2), other(N + 3), expected(after=N + 4), actual("a2", after=N + 5, derived_from="a"), other(N + 6)
    )
    ask = b.service.queries["history_of"]
    came = T + N + 4
    assert b.ask(ask, "eu", "a") == [
        Happened("p", T + 2, "ACTUAL", "a", T + 2, ""),
        Happened("p", T + 2 + N, "UNEXPECTED", "a", T + 2, ""),
        Happened("p", came, "EXPECTED", "a", came, ""),
        Happened("p", came, "EXPLAINED", "a", came, ""),
        Happened("p", came, "MATCHED", "a", came, ""),
        Happened("p", T + N + 5, "ACTUAL", "a2", T + N + 5, ""),
        Happened("p", T + N + 5, "UNEXPECTED", "a2", came, ""),
        Happened("q", came, "EXPECTED", "a", came, ""),
    ]
    b.send(other(N + 5 + M))
    assert [h.event for h in b.ask(ask, "eu", "a")] == ["LOST"]


def test_findings_name_their_key_and_the_time_of_the_key() -> None:
    b = bench()
    b.send(actual("p1", derived_from="a", source="splitter", derived_from_source="eu"), other(N + 1))
    assert b.out(b.service.outputs[0]) == [Finding("p", "eu", "a", "p1", "UNEXPECTED", T, T + N, "")]


def test_a_key_of_many_actual_items_is_kept_in_small_entries() -> None:
    b = bench()
    b.send(expected(parts=300), *[actual(f"a.{n}", derived_from="a") for n in range(299)], other(0))
    entries = list(b.entries())
    assert len(entries) > 299
    assert max(len(stored) for _, stored in entries) < 200
    parts = [actual(f"a.{n}", derived_from="a") for n in (299, 300, 7)]
    b.send(*parts, other(1 * S))
    assert told(b) == [("UNEXPECTED", "a.300", 0, "")]
    assert b.count("resent") == 1
    b.send(other(M + 1))
    assert list(b.entries()) == []
