"""Each run of each delivery has exactly one outcome, or is named."""

from __future__ import annotations

from moneystate.deliver.accounts import Accounts, Event, Totals
from moneystate.deliver.history import Attempt, Cut, Ended, Redelivered
from moneystate.deliver.outcomes import Outcome

EVENT = Event("orders", "1", "s1", "e1")


def ended(id: str, outcome: Outcome = Outcome.DELIVERED, run: int = 1) -> Ended:
    return Ended(id, "e1", "s1", run, outcome, 1_000, 1)


def redelivered(id: str, run: int) -> Redelivered:
    return Redelivered(id, "e1", "s1", run, 1_000, "c1")


def cut(id: str, *members: str, replaces: str = "") -> Cut:
    return Cut(id, "e1", "s1", "array", list(members), 1_000, replaces)


def accounts(*ids: str) -> Accounts:
    made = Accounts()
    for id in ids:
        made.expect(id, EVENT)
    return made


def test_an_outcome_for_each_delivery_is_clean() -> None:
    made = accounts("m1", "m2", "m3", "m4")
    made.take(Attempt("m1", "e1", "s1", 1, 1, 1_000, 20, 500))
    for id, outcome in zip(("m1", "m2", "m3", "m4"), Outcome, strict=True):
        made.take(ended(id, outcome))
    totals = made.totals()
    assert (totals.deliveries, totals.runs, totals.is_clean) == (4, 4, True)
    assert totals.by_outcome == dict.fromkeys(Outcome, 1)
    assert list(made.faults()) == []


def test_what_has_no_outcome_or_several_is_named() -> None:
    made = accounts("m1", "m2", "m3")
    made.take(ended("m1"))
    made.take(ended("m3", Outcome.DEAD))
    made.take(ended("m3"))
    totals = made.totals()
    assert (totals.open, totals.doubled, totals.is_clean) == (1, 1, False)
    assert [(f.run.delivery_id, f.event, f.outcomes) for f in made.faults()] == [
        ("m2", EVENT, []), ("m3", EVENT, [Outcome.DEAD, Outcome.DELIVERED]),
    ]  # fmt: skip


def test_a_redelivery_begins_a_run_that_needs_an_outcome_of_its_own() -> None:
    made = accounts("m1")
    made.take(ended("m1", Outcome.DEAD))
    made.take(redelivered("m1", 2))
    assert [f.run.number for f in made.faults()] == [2]
    made.take(ended("m1", run=2))
    assert made.totals().is_clean
    assert made.totals().runs == 2


def test_the_outcome_of_a_batch_is_that_of_its_members() -> None:
    made = accounts("m1", "m2", "m3")
    made.take(cut("b1", "m1", "m2", "m3"))
    made.take(cut("b2", "m1", "m2", replaces="b1"))
    made.take(cut("b3", "m3", replaces="b1"))
    made.take(ended("b2"))
    made.take(ended("b3", Outcome.DEAD))
    assert made.totals().is_clean
    made.take(redelivered("b2", 2))
    assert sorted(f.run for f in made.faults()) == [("m1", 2), ("m2", 2)]


def test_deliveries_of_another_time_are_passed_over() -> None:
    made = accounts("m1")
    made.take(ended("m1"))
    made.take(ended("m0"))
    made.take(cut("b1", "m0"))
    made.take(ended("b1"))
    made.take(redelivered("m0", 2))
    assert (made.totals().runs, made.totals().is_clean) == (1, True)


def test_totals_of_partitions_are_added() -> None:
    one, other, sum = accounts("m1"), accounts("m2"), Totals()
    one.take(ended("m1"))
    for made in (one, other):
        sum.add(made.totals())
    assert (sum.deliveries, sum.open, sum.by_outcome) == (2, 1, {Outcome.DELIVERED: 1})
