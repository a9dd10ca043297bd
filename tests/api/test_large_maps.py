"""A key with many entries makes no large record, and a batch that touches one of them writes that one."""

from __future__ import annotations

from moneystate.testing import Bench
from tests.bench import shelves
from tests.bench.shelves import Filled, Touched

MANY = 20_000


def test_a_batch_writes_the_entries_that_it_touches() -> None:
    bench = Bench(shelves.service, cuts="one", key_groups=1)
    bench.send(Filled("large", 0, MANY, 1))
    bench.out(shelves.done)
    entries = dict(bench.entries())
    assert len(entries) == MANY
    assert max(len(key) + len(value) for key, value in entries.items()) < 200
    before = len(bench.run.sim.changes)
    bench.send(Touched("large", 7, 2), Touched("large", MANY - 1, 3))
    bench.out(shelves.done)
    assert len(bench.run.sim.changes) - before == 2
