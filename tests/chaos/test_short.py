"""A few schedules of `python -m tests.chaos schedules`, which has a thousand (docs/reliability.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.schedule import schedule_of
from tests.chaos.schedules import run_one
from tests.chaos.world import World

# A zombie that wakes up while its successor writes, a file of the checkpoint that is cut off. Other tests kill
# processes at each step, and the broker.
SEEDS = {44: "zombie", 30: "damage"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.close()


def test_seeded_faults_lose_nothing_double_nothing_and_change_nothing(world: World) -> None:
    for seed, kind in SEEDS.items():
        assert [fault.kind for fault in schedule_of(seed).faults] == [kind]
        result = run_one(world, seed)
        assert result.held(), result.line()
        assert result.injected == [kind], result.line()
        assert result.outputs > 100
