"""When a worker's garbage is collected."""

from __future__ import annotations

import gc
import weakref

import pytest

from moneystate.job.collector import COLLECT_EVERY, RareCollector, no_collection


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_nothing_is_collected_within_and_all_after() -> None:
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_lets_the_collector_go_on() -> None:
    with pytest.raises(ValueError, match="x"), no_collection():
        raise ValueError("x")
    assert gc.isenabled()


def test_cycles_are_gone_after_some_tasks() -> None:
    collector = RareCollector()
    with no_collection():
        left = weakref.ref(Cycle())
        for _ in range(COLLECT_EVERY - 1):
            collector.collect()
        assert left() is not None
        collector.collect()
        assert left() is None
