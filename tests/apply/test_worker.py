"""Which records a worker may apply: only those that follow on what was applied of their partition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moneystate.apply.chunks import Partition
from moneystate.apply.config import HandlerTarget, Settings, TopicSource
from moneystate.apply.records import Read, Record
from moneystate.apply.worker import Choices, Taken, Worker

P = Partition("t", 0)


@pytest.fixture
def worker() -> Worker:
    settings = Settings("app", (HandlerTarget("h", TopicSource("t"), "m:f"),), "localhost:1", dsn_env="DSN")
    target: Any = SimpleNamespace(name="h", topics=["t"])
    nothing: Any = None
    made = Worker(target, TopicSource("t").start, settings, nothing, nothing, Choices(), lambda: None, None)
    made._consumer = SimpleNamespace(begins={P: 5}, placed={P: 1}, stopped=set())  # type: ignore[assignment]
    return made


def offsets(worker: Worker, placed: int, *some: int) -> list[int]:
    taken = Taken([Read(Record("t", 0, offset, None, b"")) for offset in some], {P: placed})
    return [read.record.offset for part in worker._parts(taken) for read in part.records]


def test_records_in_order_are_applied(worker: Worker) -> None:
    assert offsets(worker, 1, 4, 5, 9) == [5, 9]


def test_records_from_before_the_partition_was_placed_anew_are_not(worker: Worker) -> None:
    """They would leave out what is between the new place and them."""
    worker._consumer.placed[P] = 2
    assert offsets(worker, 1, 7, 8) == []
    assert offsets(worker, 2, 5, 6) == [5, 6]


def test_records_of_a_stopped_or_lost_partition_are_not_applied(worker: Worker) -> None:
    worker._consumer.stopped.add(P)
    assert offsets(worker, 1, 5) == []
    worker._consumer.stopped.clear()
    worker._consumer.begins.clear()
    assert offsets(worker, 1, 5) == []
