"""A replica of the tiny service's state: versions, changes, differences and entries of any service."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.engine.processor import Change
from moneystate.replica import files
from moneystate.replica.applying import Applier
from moneystate.replica.loading import Loader
from moneystate.replica.model import Version
from moneystate.replica.reader import Reader
from moneystate.replica.snapshot import Snapshot
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, change_of
from tests.engine.tiny import ALPHA, BETA, TinyRun, decode_window
from tests.engine.tiny_service import REPLICA

Window = tuple[int, int]
BATCHES = 12


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(files.open_primary(str(tmp_path), files.begin_generation(str(tmp_path))), REPLICA)
    Loader(made).finish({}, 1, 1, {0: 0})
    yield made
    made.close()


def version(batch: int) -> Version:
    return Version("e", batch)


def batches() -> Iterator[tuple[int, list[Change]]]:
    """The watermark after each batch of a job, and what the batch changed."""
    rng, run = random.Random(5), TinyRun()
    for n in range(BATCHES):
        for step in range(6):
            run.log.put(rng.choice((ALPHA, BETA)), 1_000_000 + 3_000 * n + 400 * step, f"key-{rng.randrange(9)}", step)
        run.log.beat(1_000_000 + 3_000 * (n + 1))
        before = len(run.sim.changes)
        run.batch()
        yield run.sim.watermark, run.sim.changes[before:]


def followed(store: Store) -> list[dict[bytes, bytes]]:
    """The entries after each batch, once the store has them all."""
    now: dict[bytes, bytes] = {}
    there = []
    for batch, (watermark, changed) in enumerate(batches()):
        end = End(version(batch), watermark, (0,), 1, len(changed), 1_000 + batch, 1)
        Applier(store).apply(
            BatchSlice(end, [change_of(k, v, REPLICA) for k, v in changed], 0, batch, batch + 1), exact=True
        )
        for key, value in changed:
            if value is None:
                now.pop(key, None)
            else:
                now[key] = value
        there.append(dict(now))
    return there


def windows(entries: dict[bytes, bytes]) -> dict[str, Window]:
    return {key[1:].decode(): decode_window(value) for key, value in entries.items()}


def test_each_version_has_the_entries_of_its_batch(store: Store) -> None:
    there = followed(store)
    reader: Reader[Window, Snapshot[Window]] = Reader(REPLICA, Snapshot, store.db)
    assert any(there)
    for batch, entries in enumerate(there):
        snapshot = reader.at_version(version(batch))
        page = snapshot.entries(limit=100, after=None)
        assert {entry.key: entry.value for entry in page.items} == entries
        by_key = {f"key-{n}": snapshot.find(b"key-%d" % n) for n in range(9)}
        assert {name: window for name, window in by_key.items() if window is not None} == windows(entries)
    assert reader.status().users == len(there[-1])


def test_changes_and_differences_are_those_of_the_entries(store: Store) -> None:
    there = [windows(entries) for entries in followed(store)]
    reader: Reader[Window, Snapshot[Window]] = Reader(REPLICA, Snapshot, store.db)
    seen, latest = dict(there[0]), version(0)
    while True:
        changes = reader.changes(latest, limit=100)
        for name, window in changes.changed:
            seen.pop(name, None)
            if window is not None:
                seen[name] = window
        if changes.header.version == latest:
            break
        latest = changes.header.version
        assert seen == there[latest.batch]
    assert latest == version(BATCHES - 1)
    first, last = reader.at_version(version(2)), reader.latest()
    differences = reader.diff(first, last, limit=100).items
    names = there[2].keys() | there[-1].keys()
    wanted = {n: (there[2].get(n), there[-1].get(n)) for n in names if there[2].get(n) != there[-1].get(n)}
    assert {change.user_id: (change.before, change.after) for change in differences} == wanted
    assert wanted
