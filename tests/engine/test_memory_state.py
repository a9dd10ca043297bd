"""The state in memory, held to the contract of all state accesses."""

from __future__ import annotations

import pytest

from moneystate.engine.state import MemoryState
from tests.engine.state_contract import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_memory(name: str) -> None:
    state = MemoryState()
    CHECKS[name](state)
    assert state.entries == {}


def test_it_can_stand_on_entries_that_are_there() -> None:
    assert MemoryState({b"k": b"v"}).get_many([b"k"]) == [b"v"]
