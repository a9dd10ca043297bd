"""Transaction mode tells what the transactions of a model database meant, whatever stands in the topics and whenever
it arrives.
"""

from __future__ import annotations

import pytest

from tests.budget import examples
from tests.reference.changes.history import Shape, history
from tests.reference.changes.truth import root_key
from tests.services.changes.driver import Driver, config, tables_with, without_nulls

SHAPES = {
    "overlapping": Shape(),
    "snapshots": Shape(snapshots=3, full=("student", "booking")),
    "killed": Shape(kills=4, snapshots=2, skew_ms=20_000, copies=False),  # Debezium loses rows of a COPY then
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(examples(30)))
def test_events_are_what_the_transactions_meant(seed: int, name: str) -> None:
    told = history(seed, SHAPES[name])
    driver = Driver(config(tables=tables_with(SHAPES[name].full)), seed)
    driver.send(told.arrivals, lost=0.01)
    assert [event for _, event in driver.keyed()] == [without_nulls(event) for event in told.events]
    assert [key for key, _ in driver.keyed()] == [root_key(event) for event in told.events]
    assert driver.bench.count("unchanged") == told.unchanged
    assert driver.bench.dead_letters() == []
    driver.bench.end()
