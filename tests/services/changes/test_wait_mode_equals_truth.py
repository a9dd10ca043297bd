"""Wait mode tells what users wanted, if operations on one row are further apart than the wait, and the topics less than
`settle`.
"""

from __future__ import annotations

import pytest

from tests.budget import examples
from tests.reference.changes.intents import wanted
from tests.reference.changes.truth import Event
from tests.services.changes.driver import Driver, config

SETTLE_MS, WAIT_MS = 2_000, 10_000


def by_rows(event: Event) -> tuple[object, ...]:
    return event["rows"], event["type"]


@pytest.mark.parametrize("seed", range(examples(30)))
def test_events_are_what_was_wanted(seed: int) -> None:
    arrivals, events = wanted(seed, 16, SETTLE_MS - 500)
    driver = Driver(config(transactions=False, settle_ms=SETTLE_MS, wait_ms=WAIT_MS), seed)
    driver.send(arrivals, lost=0.01)
    assert sorted(driver.events(), key=by_rows) == sorted(events, key=by_rows)
    assert driver.bench.dead_letters() == []
    driver.bench.end()
