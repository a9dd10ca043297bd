"""A few schedules of `python -m tests.chaos schedules`, which has a thousand (docs/reliability.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from tests.chaos import deliveries
from tests.chaos.schedule import Moment, Schedule, schedule_of
from tests.chaos.schedules import run_schedule
from tests.chaos.world import World

DAMAGE = schedule_of(30)  # a file of the checkpoint is cut off


def late_attempt() -> Schedule:
    """A zombie wakes up after it has read the claims and before it fences, while its successor writes: it fences its
    successor, which writes the batch again."""
    schedule = schedule_of(44)
    return replace(schedule, faults=(replace(schedule.faults[0], moment=Moment("claim read")),))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("schedule", "kind"), [(late_attempt(), "zombie"), (DAMAGE, "damage")], ids=["zombie", "damage"]
)
def test_seeded_faults_lose_nothing_double_nothing_and_change_nothing(
    world: World, schedule: Schedule, kind: str
) -> None:
    """Other tests kill processes at each step, and the broker."""
    assert [fault.kind for fault in schedule.faults] == [kind]
    result = run_schedule(world, schedule)
    assert result.held(), result.line()
    assert result.injected == [kind], result.line()
    assert result.outputs > 100


@pytest.mark.long
def test_killed_workers_of_deliveries_keep_every_promise(broker: DevBroker, tmp_path: Path) -> None:
    deliveries.run(broker, tmp_path, seed=3, kills=5)
