"""Entries over segments and caches, against a plain map: whatever process does a batch, fails in it, or has lost its
cache.

The state store is a map that a failed batch leaves as it was, as Spark does; the caches are the workers' real ones.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine import segments
from moneystate.engine.log_structured import LogStructuredState
from moneystate.engine.segments import entries_of
from moneystate.engine.state import MemoryState, StateAccess
from moneystate.job.entry_cache import RocksEntryCache
from moneystate.job.segment_files import SegmentFiles
from tests.budget import examples
from tests.engine.state_contract import CHECKS

Changes = list[tuple[bytes, bytes | None]]
CLOCK = b"\xc3\x01" + bytes(8)  # stands for any: each batch has one
GROUP = 7
ORIGINS = itertools.count(1)
SOME = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
keys = st.integers(0, 12).map(lambda n: b"u%d" % n)
changes_of = st.dictionaries(keys, st.none() | st.binary(max_size=8), max_size=5).map(lambda d: list(d.items()))


class Batch:
    """`worker`: whose cache it is; `outcome`: done, failed (before the store has it), lost (the worker's cache and
    the machine's files of segments), or damaged (those files are cut off). `is_plain`: an earlier program ran it, which
    wrote single entries."""

    def __init__(self, worker: int, outcome: str, changes: Changes, is_plain: bool = False) -> None:
        self.worker, self.outcome, self.changes, self.is_plain = worker, outcome, changes, is_plain

    def __repr__(self) -> str:
        return f"Batch({self.worker}, {self.outcome!r}, {self.changes}, {self.is_plain})"


batches = st.builds(
    Batch,
    st.integers(0, 1),
    st.sampled_from(["done", "done", "done", "failed", "lost", "damaged"]),
    changes_of,
    st.sampled_from([False, False, False, False, True]),
)


class Counting:
    """A store that counts the entries that are asked for and put."""

    def __init__(self) -> None:
        self.inner = MemoryState()
        self.calls = 0
        self.asked = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.calls += len(keys)
        self.asked += len(keys)
        return self.inner.get_many(keys)

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.calls += len(changes)
        self.inner.apply(changes)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return self.inner.scan(prefix)


def opened(store: StateAccess, cache: RocksEntryCache, group: int = GROUP) -> LogStructuredState:
    return LogStructuredState(store, store.get_many([segments.MANIFEST_KEY])[0], cache, group, next(ORIGINS))


@contextmanager
def caches() -> Iterator[list[RocksEntryCache]]:
    with tempfile.TemporaryDirectory() as folder:
        files = SegmentFiles(Path(folder) / "runs")
        made = [RocksEntryCache(Path(folder) / str(n), files) for n in range(2)]
        yield made
        for cache in made:
            cache.db.close()


def files_of(cache: RocksEntryCache) -> list[Path]:
    return list(cache.files.folder.iterdir())


def lose(files: list[Path]) -> None:
    for file in files:
        file.unlink()


def run(batch: Batch, stored: dict[bytes, bytes], cache: RocksEntryCache, model: dict[bytes, bytes]) -> None:
    """A batch: it sees what the model has, also what it put itself; a failed one leaves nothing."""
    store = MemoryState(dict(stored))
    state = opened(store, cache)
    wanted = [b"u%d" % n for n in range(13)]
    assert state.get_many(wanted) == [model.get(key) for key in wanted]
    state.apply([(b"c", CLOCK), *batch.changes])
    after = dict(model) | {b"c": CLOCK}
    for key, value in batch.changes:
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    assert state.get_many(wanted) == [after.get(key) for key in wanted]
    assert dict(state.scan()) == after
    store.apply(state.end())
    assert entries_of(store.entries) == after
    if batch.outcome == "failed":
        return
    stored.clear()
    stored.update(after if batch.is_plain else store.entries)
    model.clear()
    model.update(after)


@SOME
@given(st.lists(batches, max_size=40))
def test_whatever_happens_the_entries_are_those_of_a_map(plan: list[Batch]) -> None:
    stored: dict[bytes, bytes] = {}
    model: dict[bytes, bytes] = {}
    with caches() as workers:
        for batch in plan:
            cache = workers[batch.worker]
            if batch.outcome == "lost":
                cache.clear(GROUP)
                lose(files_of(cache))
            elif batch.outcome == "damaged":
                for file in files_of(cache):
                    file.write_bytes(file.read_bytes()[:-1])
            run(batch, stored, cache, model)
        if plan and any(batch.outcome != "failed" for batch in plan):
            has_segments = segments.is_manifest(stored[segments.MANIFEST_KEY])
            done = [batch for batch in plan if batch.outcome != "failed"]
            assert has_segments == (not done[-1].is_plain)


def test_runs_that_began_anew_are_not_taken_for_those_of_before() -> None:
    """Written one by one in between by another worker, they have the numbers of before."""
    put: Changes = [(b"u0", b"new")]
    plan = [Batch(0, "done", []), Batch(1, "done", []), Batch(0, "done", [], True), Batch(0, "done", put)]
    stored: dict[bytes, bytes] = {}
    model: dict[bytes, bytes] = {}
    with caches() as workers:
        for batch in [*plan, Batch(1, "done", [])]:
            run(batch, stored, workers[batch.worker], model)
    assert model == {b"c": CLOCK, b"u0": b"new"}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("plain", [False, True])
def test_it_is_a_state_access_like_any_other(name: str, plain: bool) -> None:
    """`plain`: over a state whose entries are in the store one by one."""
    with caches() as (cache, _):
        store = MemoryState({b"c": CLOCK} if plain else {})
        CHECKS[name](opened(store, cache))


def test_key_groups_do_not_see_one_another() -> None:
    with caches() as (cache, _):
        stores = {group: MemoryState() for group in (6, 7, 8)}
        for _ in range(2):
            for group, store in stores.items():
                state = opened(store, cache, group)
                state.apply([(b"c", CLOCK), (b"u", b"%d" % group), (b"\xff" * 9, b"")])
                assert len(dict(state.scan())) == 3
                store.apply(state.end())
        cache.clear(7)
        for group, store in stores.items():
            assert opened(store, cache, group).get_many([b"u", b"\xff" * 9]) == [b"%d" % group, b""]


def test_a_batch_reads_and_writes_few_pieces_however_many_entries_it_touches() -> None:
    with caches() as (cache, _):
        store = Counting()
        for n in range(64):
            state = opened(store, cache)
            state.get_many([b"u%d" % i for i in range(500)])
            state.apply([(b"c", CLOCK), *[(b"u%d" % i, b"%d" % n) for i in range(500)]])
            store.apply(state.end())
        assert store.calls <= 64 * 6


def test_what_another_worker_of_the_machine_wrote_is_read_beside_the_store() -> None:
    """Sixteen batches by turns, two merges among them: from the store come the manifests, and once the files are gone
    all segments."""
    with caches() as workers:
        store = Counting()
        for n in range(16):
            state = opened(store, workers[n % 2])
            state.apply([(b"c", CLOCK), (b"u%d" % n, b"v")])
            puts = state.end()
            store.apply(puts)
            assert len(files_of(workers[0])) == len(state.manifest.segments)
        asked = store.asked
        assert asked == 16
        lose(files_of(workers[0]))
        state = opened(store, workers[0])
        assert state.get_many([b"u%d" % n for n in range(16)]) == [b"v"] * 16
        assert store.asked > asked + 1
