"""What joining does, rule by rule (docs/joining.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

import moneystate as ms
from moneystate.errors import ServiceError
from moneystate.testing import Bench
from services.joining.config import Config
from services.joining.records import Cancelled, Joined, JoinedPart, Part, PartsRequested
from services.joining.service import joining

S: Final = 1_000
CONFIG: Final = Config(("a", "b", "c"), ("a", "b"), wait_ms=10 * S, retention_ms=60 * S, late_retention_ms=30 * S)


def json(value: object) -> ms.Json:
    return ms.Json.of(value)


def part(service: str, at_s: int, body: object = None, error: object = None) -> Part:
    return Part("x", service, at_s * S, None if body is None else json(body), None if error is None else json(error))


class Joining:
    def __init__(self, config: Config = CONFIG, **changes: Any) -> None:
        self.service = joining(replace(config, **changes))
        self.bench = Bench(self.service, bound_ms=2 * S)
        (self.joined,) = self.service.outputs

    def send(self, *records: Any) -> None:
        self.bench.send(*records)

    def out(self) -> list[Joined]:
        made: list[Joined] = self.bench.out(self.joined)
        return made

    def shown(self) -> list[tuple[str, int, list[str]]]:
        return [(j.status, j.revision, j.missing) for j in self.out()]


def test_a_result_is_complete_once_all_expected_services_have_a_part() -> None:
    it = Joining()
    it.send(part("a", 1, {"n": 1}), part("b", 2, error="down"))
    assert it.out() == [
        Joined("x", "COMPLETE", 1, {"a": JoinedPart(json({"n": 1}), S)}, {"b": json("down")}, [], {"n": json(1)}, [])
    ]
    it.bench.end()


def test_what_is_not_complete_after_the_wait_is_partial_and_corrected_later() -> None:
    it = Joining()
    it.send(part("a", 1, 1), part("a", 11, 2))  # a record of t0 + wait itself comes before the timer
    it.send(part("a", 12, 3), part("b", 13, 4))
    assert it.shown() == [("PARTIAL", 1, ["b"]), ("PARTIAL", 2, ["b"]), ("COMPLETE", 3, [])]
    assert [j.parts["a"].body.text for j in it.out()] == ["2", "3", "3"]
    it.bench.end()


def test_without_partial_results_only_what_is_complete_is_put_out() -> None:
    it = Joining(partial="none")
    it.send(part("a", 1, 1), part("a", 20, 2), part("b", 30, 1), PartsRequested("x", 31 * S, ["a", "c"]))
    it.send(part("b", 32, 2), PartsRequested("x", 33 * S))
    assert it.shown() == [("COMPLETE", 1, []), ("COMPLETE", 2, [])]
    it.bench.end()


def test_a_request_that_reopens_is_silent_until_complete_or_the_wait_is_over() -> None:
    it = Joining()
    it.send(part("a", 1, 1), part("b", 2, 1), PartsRequested("x", 3 * S, ["a", "b", "c"]), part("b", 4, 2))
    assert it.shown() == [("COMPLETE", 1, [])]
    it.send(Cancelled("y", 20 * S))
    assert it.shown()[1:] == [("PARTIAL", 2, ["c"]), ("CANCELLED", 1, ["a", "b"])]
    it.bench.end()


def test_the_greatest_request_decides_whatever_its_order() -> None:
    it = Joining()
    it.send(
        PartsRequested("x", 9 * S, ["c"], json({"n": 0})), PartsRequested("x", 8 * S, ["a"]), part("c", 8, {"n": 1})
    )
    (it_is,) = it.out()
    assert (it_is.status, it_is.merged, it_is.conflicts) == ("COMPLETE", {"n": json(0)}, ["n"])
    it.bench.end()


def test_services_that_do_not_exist_and_parts_with_both_or_neither_are_dead_letters() -> None:
    it = Joining()
    it.send(part("z", 1, 1), PartsRequested("x", 2 * S, ["a", "z"]), part("a", 3), part("a", 4, 1, 1))
    it.send(Part("x", "a", 5 * S, json(None), json(1)))
    assert it.bench.dead_letters() == ["unknown_service", "unknown_service", "body_or_error", "body_or_error"]
    assert it.bench.ask(it.service.queries["by_id"], "x").first_at == 5 * S
    it.bench.end()


def test_of_two_parts_of_a_service_a_body_stays_then_the_newer_and_a_repetition_is_counted() -> None:
    it = Joining(expected=("a",))
    it.send(part("a", 1, error=1), part("a", 2, 1), part("a", 3, error=2), part("a", 4, 1))
    assert [(list(j.errors), [p.produced_at for p in j.parts.values()]) for j in it.out()] == [
        (["a"], []), ([], [2 * S]), ([], [4 * S])
    ]  # fmt: skip
    assert it.bench.count("duplicates") == 1
    it.bench.end()


def test_merged_has_the_first_value_of_a_field_by_configured_order() -> None:
    it = Joining(expected=())
    it.send(part("c", 1, {"n": 3, "z": 1}), part("b", 1, [1]), part("a", 1, {"n": 1.0, "ä": 0, "Z": 0}))
    it.send(PartsRequested("x", 2 * S, body=json({"ä": 1, "Z": 0, "z": 1})))
    first, second = it.out()
    assert (first.merged["n"], first.conflicts) == (json(1.0), ["n"])
    assert (second.merged["ä"], second.conflicts) == (json(1), ["n", "ä"])
    it.bench.end()


def test_cancelled_shows_the_present_content_and_ends_the_id() -> None:
    it = Joining()
    it.send(part("a", 1, 1), Cancelled("x", 2 * S), part("b", 32, 1), Cancelled("x", 3 * S))
    assert it.shown() == [("CANCELLED", 1, ["b"])]
    assert it.bench.count("late_parts") == 2
    it.send(part("b", 33, 1))
    it.send(part("a", 34, 1))
    assert it.shown()[1:] == [("COMPLETE", 1, [])]  # again
    it.bench.end()


def test_a_record_at_the_end_of_the_retention_is_in_time_and_one_after_it_is_late() -> None:
    it = Joining()
    it.send(part("a", 1, 1), part("b", 61, 1), part("b", 91, 2))
    assert it.shown() == [("PARTIAL", 1, ["b"]), ("COMPLETE", 2, [])]
    assert it.bench.count("late_parts") == 1  # the last moment of the mark, too
    it.send(part("a", 92, 3))
    assert it.bench.ask(it.service.queries["by_id"], "x").first_at == 92 * S
    it.bench.end()


def test_after_the_mark_nothing_is_left_not_even_in_the_topic() -> None:
    it = Joining(tombstones=True, partial="none")
    it.send(part("a", 1, 1), part("b", 1, 1), Part("silent", "a", S, json(1)), Cancelled("y", S))
    it.bench.end()
    keyed = it.bench.keyed(it.joined)
    assert [(key, j and j.status) for key, j in keyed] == [
        ("x", "COMPLETE"), ("y", "CANCELLED"), ("y", None), ("x", None)
    ]  # fmt: skip
    assert list(it.bench.entries()) == []


def test_a_content_that_did_not_change_is_not_put_out_again() -> None:
    it = Joining()
    it.send(part("a", 1, 1), part("b", 1, 1), part("c", 2, 1), PartsRequested("x", 3 * S, ["b", "a"]))
    it.send(PartsRequested("x", 4 * S, ["c"]), PartsRequested("x", 5 * S, ["a", "b"]))
    assert [list(j.parts) for j in it.out()] == [["a", "b"], ["c"], ["a", "b"]]
    it.bench.end()


def test_a_body_at_the_limit_of_levels_is_compared_and_merged() -> None:
    deep = ms.Json("[" * 100 + "]" * 100)
    it = Joining(expected=("a",), format="avro")
    it.send(Part("x", "a", S, deep), Part("x", "a", 2 * S, deep), PartsRequested("x", 2 * S, None, deep))
    it.send(PartsRequested("x", 2 * S, None, deep))
    assert [j.parts["a"].produced_at for j in it.out()] == [S, 2 * S]
    assert it.bench.count("duplicates") == 2
    it.bench.end()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"expected": ("z",)}, "expected: 'z' is not among the services."),
        ({"services": ("a", "b", "a")}, "services: one of them is named twice."),
        ({"wait_ms": 60 * S}, "wait is 60,000 ms and retention 60,000 ms."),
        ({"wait_ms": -1}, "wait is -1 ms"),
        ({"late_retention_ms": -1}, "late_retention is -1 ms."),
    ],
)
def test_a_wrong_configuration_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ServiceError) as refused:
        joining(replace(CONFIG, **changes))
    assert line in str(refused.value)


def test_queries_give_an_id_the_open_ones_and_those_that_wait_for_a_service() -> None:
    it = Joining()
    for at_s, services in ((5, "c"), (4, "a"), (5, "ab"), (3, "b")):
        it.send(*[Part(f"id-{services}", service, at_s * S, json({"n": at_s})) for service in services])
    it.send(Cancelled("gone", 6 * S))
    ask = it.service.queries
    opened = it.bench.ask(ask["open_ids"])
    assert [(o.id, o.first_at, o.missing) for o in opened] == [
        ("id-b", 3 * S, ["a"]), ("id-a", 4 * S, ["b"]), ("id-c", 5 * S, ["a", "b"])
    ]  # fmt: skip
    assert it.bench.ask(ask["open_ids"], 1) == opened[:1]
    assert [o.id for o in it.bench.ask(ask["missing"], "a")] == ["id-b", "id-c"]
    known = it.bench.ask(ask["by_id"], "id-ab")
    assert (known.status, known.first_at, known.joined) == ("COMPLETE", 5 * S, it.out()[0])
    waiting = it.bench.ask(ask["by_id"], "id-a")
    assert (waiting.status, waiting.joined.missing, waiting.joined.revision) == ("OPEN", ["b"], 0)
    assert it.bench.ask(ask["by_id"], "none").status == "NONE"
    assert (it.bench.ask(ask["by_id"], "gone").status, it.bench.ask(ask["by_id"], "gone").ended_at) == ("ENDED", 6 * S)
    it.bench.end()
