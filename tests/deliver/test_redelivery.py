"""Which messages of a log a command means."""

from __future__ import annotations

from typing import Any

from moneystate.deliver.history import Attempt, Cut, Ended, LogRecord, Redeliver, Redelivered
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.redelivery import Chronicle, chronicle_of


def ended(name: str, outcome: Outcome, at_ms: int, run: int = 1, endpoint: str = "e1") -> Ended:
    return Ended(name, endpoint, "s1", run, outcome, at_ms, 1)


ENDPOINTS = {"e1", "e2"}
LOG: list[LogRecord] = [
    ended("m1", Outcome.DELIVERED, 10),
    ended("m2", Outcome.DEAD, 20),
    Cut("b1", "e1", "s1", "array", ["m3", "m4"], 5),
    Cut("b2", "e1", "s1", "array", ["m3"], 6, replaces="b1"),
    ended("b2", Outcome.OVERFLOW, 30),
    ended("m5", Outcome.DEAD, 40, endpoint="e2"),
    ended("m6", Outcome.DEAD, 50),
    Redelivered("m6", "e1", "s1", 2, 60, "c0"),
    Attempt("test_1", "e1", "", 0, 1, 70, 5, 200),
]


def chosen(its: Chronicle, **given: Any) -> list[tuple[str, int]]:
    command = Redeliver("c1", "e1", "acme", "ann", 100, **given)
    return [(one.webhook_id, one.run) for one in its.chosen(command)]


def test_ended_messages_of_the_endpoint_are_chosen_by_id_time_or_outcome() -> None:
    its = chronicle_of(LOG, ENDPOINTS)
    assert chosen(its, ids=["m1", "m3", "m5", "m6", "b1"]) == [("m1", 1), ("b2", 1)]  # m6 is under way, b1 is replaced
    assert chosen(its, is_dead=True) == [("m2", 1), ("b2", 1)]
    assert chosen(its, since_ms=10, until_ms=30) == [("m1", 1), ("m2", 1)]
    assert its.attempted == {"test_1"}


def test_a_command_sends_a_message_again_once() -> None:
    again: list[LogRecord] = [
        *LOG,
        Redelivered("m1", "e1", "s1", 2, 110, "c1"),
        ended("m1", Outcome.DELIVERED, 120, run=2),
    ]
    assert chosen(chronicle_of(again, ENDPOINTS), ids=["m1"]) == []
    other = Redeliver("c2", "e1", "acme", "ann", 200, ids=["m1"])
    assert [one.run for one in chronicle_of(again, ENDPOINTS).chosen(other)] == [2]


def test_the_halves_of_a_batch_go_on_with_its_run_and_its_command() -> None:
    again: list[LogRecord] = [
        Cut("b1", "e1", "s1", "array", ["m1", "m2"], 5),
        ended("b1", Outcome.DELIVERED, 10),
        Redelivered("b1", "e1", "s1", 2, 20, "c1"),
        Cut("b2", "e1", "s1", "array", ["m1"], 30, replaces="b1"),
        Cut("b3", "e1", "s1", "array", ["m2"], 30, replaces="b1"),
        ended("b2", Outcome.DELIVERED, 40, run=2),
    ]
    assert chosen(chronicle_of(again, ENDPOINTS), ids=["m1", "m2"]) == []
    other = Redeliver("c2", "e1", "acme", "ann", 200, ids=["m1", "m2"])
    assert [(one.webhook_id, one.run) for one in chronicle_of(again, ENDPOINTS).chosen(other)] == [("b2", 2)]


def test_messages_of_other_endpoints_are_not_kept() -> None:
    assert {one.endpoint_id for one in chronicle_of(LOG, {"e2"}).past.values()} == {"e2"}
