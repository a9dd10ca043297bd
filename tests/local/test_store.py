"""The store of a local run: a batch's changes count together with its number, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.errors import CheckpointError
from moneystate.job.local.store import LocalStore
from tests.engine.state_contract import CHECKS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "local") as opened:
        yield opened


@pytest.mark.parametrize("name", CHECKS)
def test_it_is_a_state_access(name: str, store: LocalStore) -> None:
    CHECKS[name](store.group(3))


@pytest.mark.parametrize("name", CHECKS)
def test_it_is_one_over_committed_entries_of_other_key_groups(name: str, store: LocalStore) -> None:
    for group in (2, 4):
        store.group(group).apply([(b"", b"other"), (b"one", b"other"), (b"\xff", b"other")])
    store.commit(0)
    CHECKS[name](store.group(3))


def test_changes_and_their_batch_are_one_write(tmp_path: Path) -> None:
    folder = tmp_path / "local"
    with LocalStore(folder) as store:
        assert store.batch == -1
        store.group(0).apply([(b"a", b"1"), (b"b", b"2")])
        store.group(7).apply([(b"a", b"3")])
        store.commit(4)
        store.group(0).apply([(b"a", None), (b"c", b"4")])
        assert list(store.entries()) == [(0, b"a", b"1"), (0, b"b", b"2"), (7, b"a", b"3")]
    with LocalStore(folder) as store:  # batch 5 was not committed
        assert store.batch == 4
        state = store.group(0)
        assert state.get_many([b"a", b"c"]) == [b"1", None]
        state.apply([(b"a", b"9")])
        store.forget()
        assert state.get_many([b"a"]) == [b"1"]
        state.apply([(b"a", None)])
        assert dict(state.scan()) == {b"b": b"2"}
        store.commit(5)
    with LocalStore(folder, read_only=True) as store:
        assert (store.batch, list(store.entries())) == (5, [(0, b"b", b"2"), (7, b"a", b"3")])


def test_only_one_process_has_it(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected the state of a local run"):
        LocalStore(tmp_path / "local")
