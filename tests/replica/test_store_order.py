"""Versions as they come from several partitions, each in its own order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator

import pytest

from moneystate.replica import files
from moneystate.replica.applying import Applier
from moneystate.replica.files import Rebuild
from moneystate.replica.loading import Loader
from moneystate.replica.model import Pruned, Version
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, EntryChange, change_of
from tests.replica.states import MODEL, State, entries

GROUPS = 2  # one in each partition


@pytest.fixture
def store() -> Iterator[Store]:
    data = tempfile.mkdtemp(prefix="moneystate-test-")
    made = Store(files.open_primary(data, files.begin_generation(data)), MODEL)
    Loader(made).finish({}, GROUPS, 2, {0: 0, 1: 0})
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(data)


def ended(epoch: str, batch: int, at_ms: int, partition: int) -> End:
    return End(Version(epoch, batch), batch, (partition,), GROUPS, 0, at_ms)


def batch_slice(epoch: str, batch: int, partition: int, offset: int, *countries: str) -> BatchSlice:
    changes: list[EntryChange] = []
    for n, country in enumerate(countries):
        changes += [change_of(k, v, MODEL) for k, v in entries(b"user-%d" % n, State(country=country)).items()]
    return BatchSlice(ended(epoch, batch, offset, partition), changes, partition, offset, offset + 1)


def country(reader: ReplicaReader) -> str:
    return str(reader.latest().record(MODEL.plan.kinds["user"], b"user-0").info.resident_country_code)


def test_a_version_of_the_epoch_before_that_comes_after_the_next_epochs_is_not_dropped(store: Store) -> None:
    """The first epoch ended within its batch 1, which only partition 1 has; and partition 0 is read first."""
    applier = Applier(store)
    applier.apply(batch_slice("one", 0, 0, 0), exact=True)
    applier.apply(batch_slice("two", -1, 0, 1), exact=True)
    applier.apply(batch_slice("one", 0, 1, 0), exact=True)
    applier.apply(batch_slice("one", 1, 1, 1, "ES"), exact=True)
    with pytest.raises(Rebuild, match="two/-1 is not in the order of the log"):
        applier.apply(batch_slice("two", -1, 1, 2, "PT"), exact=True)


def test_a_load_sorts_them(store: Store) -> None:
    applier = Applier(store)
    ends = {0: (5, ended("two", 0, 2_000, 0)), 1: (1, ended("one", 8, 1_000, 1))}
    Loader(store).finish(ends, GROUPS, 2, {0: 6, 1: 2})
    applier.apply(batch_slice("two", 0, 1, 2, "PT"), exact=True)
    reader = ReplicaReader(MODEL, store.db)
    assert reader.newest() == Version("two", 0)
    assert country(reader) == "PT"
    with pytest.raises(Pruned):
        reader.at_version(Version("one", 8))


def test_what_was_read_again_after_a_kill_changes_nothing(store: Store) -> None:
    applier = Applier(store)
    for partition in (0, 1):
        applier.apply(batch_slice("one", 0, partition, 0, "ES"), exact=True)
        applier.apply(batch_slice("one", 1, partition, 1, "PT"), exact=True)
    applier.apply(batch_slice("one", 0, 0, 0, "FR"), exact=True)
    assert country(ReplicaReader(MODEL, store.db)) == "PT"
