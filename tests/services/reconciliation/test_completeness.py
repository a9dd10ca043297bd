"""The counts of intervals: when records are written, and what they say."""

from __future__ import annotations

import pytest

import moneystate as ms
from moneystate.testing import Bench
from services.reconciliation.completeness import completeness
from services.reconciliation.config import Config, Pair, Side
from services.reconciliation.intervals import percent
from services.reconciliation.records import Completeness, CountChange, InventoryItem
from services.reconciliation.service import reconciliation

S = 1_000
MIN = 60 * S
T = 1_700_000_040_000  # a multiple of o
CONFIG = Config(
    pairs=(
        Pair(
            "p", Side("shop", "PRODUCER_EXPECTED"), Side("lake", "ACTUAL"), 10 * S, 90 * S, MIN, retention_ms=10 * MIN
        ),
    ),
    format="avro",
)


def bench() -> Bench:
    return Bench(reconciliation(CONFIG), completeness(CONFIG), bound_ms=300 * S)


def send(b: Bench, *events: tuple[str, str, int]) -> None:
    roles = {"shop": "PRODUCER_EXPECTED", "lake": "ACTUAL", "none": "ACTUAL"}
    for store, id, after in events:
        b.send(InventoryItem(store, "eu", id, roles[store], T + after))  # type: ignore[arg-type]


def written(b: Bench) -> list[tuple[int, tuple[int, ...], int, bool]]:
    """Start in seconds after T, the counts, revision, final."""
    return [
        (
            (r.interval_start - T) // S,
            (r.expected, r.matched, r.missing, r.pending, r.unexpected, r.duplicates, r.too_late),
            r.revision,
            r.final,
        )
        for r in b.out(counts_of(b))
    ]


def counts_of(b: Bench) -> ms.Output[Completeness]:
    output: ms.Output[Completeness] = b.members[1].plan.service.outputs[0]
    return output


def test_a_record_is_written_at_multiples_of_o_where_the_counts_have_changed() -> None:
    b = bench()
    send(b, ("shop", "a", 1), ("shop", "b", 55 * S), ("lake", "a", 1 * S), ("none", "x", MIN - 1))
    assert written(b) == []
    send(b, ("none", "x", MIN))
    assert written(b) == [(0, (2, 1, 0, 1, 0, 0, 0), 1, False)]
    send(b, ("none", "x", 2 * MIN + 1))
    assert written(b)[1:] == [(0, (2, 1, 1, 0, 0, 0, 0), 2, False)]


def test_the_final_record_is_written_once_at_the_intervals_end_and_m() -> None:
    b = bench()
    send(b, ("shop", "a", 0), ("lake", "a", 0), ("none", "x", 2 * MIN + 30 * S - 1))
    assert written(b) == [(0, (1, 1, 0, 0, 0, 0, 0), 1, False)]
    send(b, ("none", "x", 2 * MIN + 30 * S))
    assert written(b)[1:] == [(0, (1, 1, 0, 0, 0, 0, 0), 2, True)]


def test_the_final_record_replaces_a_regular_one_of_the_same_time() -> None:
    config = Config(pairs=(Pair("p", CONFIG.pairs[0].expected, CONFIG.pairs[0].actual, 10 * S, MIN, MIN),))
    b = Bench(reconciliation(config), completeness(config), bound_ms=300 * S)
    send(b, ("shop", "a", 59 * S), ("lake", "a", 119 * S), ("none", "x", 2 * MIN + 1))
    assert written(b) == [(0, (1, 0, 0, 1, 0, 0, 0), 1, False), (0, (1, 1, 0, 0, 0, 0, 0), 2, True)]


def test_an_interval_whose_counts_go_back_to_those_written_has_no_record_for_it() -> None:
    b = bench()
    send(b, ("lake", "a", 58 * S), ("shop", "a", MIN + 9 * S), ("none", "x", 4 * MIN))
    starts = [record[:2] for record in written(b)]
    assert starts == [(60, (1, 1, 0, 0, 0, 0, 0)), (60, (1, 1, 0, 0, 0, 0, 0))]


def test_counts_move_with_the_time_of_the_key() -> None:
    b = bench()
    send(b, ("lake", "a", 30 * S), ("shop", "a", MIN + 30 * S), ("none", "x", 6 * MIN))
    assert written(b) == [
        (0, (0, 0, 0, 0, 1, 0, 0), 1, False),
        (0, (0, 0, 0, 0, 0, 0, 0), 2, False),
        (60, (1, 1, 0, 0, 0, 0, 0), 1, False),
        (0, (0, 0, 0, 0, 0, 0, 0), 3, True),
        (60, (1, 1, 0, 0, 0, 0, 0), 2, True),
    ]


def test_intervals_are_answered_latest_first_until_the_retention_is_over() -> None:
    b = bench()
    ask = b.members[1].plan.service.queries["intervals_of"]
    send(b, ("shop", "a", 0), ("lake", "a", 0), ("shop", "b", 3 * MIN), ("none", "x", 4 * MIN + 1))
    answer: list[Completeness] = b.ask(ask, "p")
    assert [((r.interval_start - T) // S, r.final) for r in answer] == [(180, False), (0, True)]
    assert b.ask(ask, "p", limit=1) == answer[:1]
    assert b.ask(ask, "q") == []
    send(b, ("none", "x", 16 * MIN + 1))
    assert b.ask(ask, "p") == []
    assert [*b.entries(), *b.entries(b.members[1].plan.service)] == []


def test_the_record_key_has_the_time_as_the_value_has_it() -> None:
    for config, key in ((CONFIG, f'["p",{T}]'), (Config(pairs=CONFIG.pairs), '["p","2023-11-14T22:14:00.000Z"]')):
        b = Bench(completeness(config))
        b.send(CountChange("p", T, expected=1), order_time_ms=T)
        b.end()
        assert {key for key, _ in b.keyed(b.service.outputs[0])} == {key}


def test_changes_of_a_pair_that_is_not_configured_leave_nothing() -> None:
    b = Bench(completeness(CONFIG))
    b.send(CountChange("dropped", T, expected=1), order_time_ms=T)
    assert [*b.entries()] == []
    b.end()
    assert b.out(b.service.outputs[0]) == []


@pytest.mark.parametrize(
    ("matched", "expected", "wanted"),
    [(0, 0, 100.0), (0, 3, 0.0), (1, 3, 100 / 3), (3, 3, 100.0), (2**60 - 1, 2**60, 99.99999999999999)],
)
def test_only_what_is_complete_is_100_percent(matched: int, expected: int, wanted: float) -> None:
    assert percent(matched, expected) == wanted
