"""The store against plain dicts: random batches, sweeps, restarts and forgetting, and the same answers at every version
kept."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moneystate.replica import files, rows
from moneystate.replica.applying import Applier
from moneystate.replica.loading import Loader
from moneystate.replica.model import Page, Pruned, Version
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.retention import RetentionPolicy, RetentionSweep
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, change_of
from moneystate.replica.view import ReplicaView
from moneystate.runtime.replica_model import place_of
from tests.budget import examples
from tests.replica.states import LOOKUP, MODEL, Entries, Money, State, changes, entries, entry_of, forgotten, key_of

AFTER_ALL_MS = 1_000  # a user is forgotten after all lookups that are made here
USERS = [b"a", b"a\x00b", b"ab", b"\xc3\xbc"]
Item = TypeVar("Item")

moneys = st.tuples(st.integers(0, 5), st.booleans()).map(
    lambda m: Money(f"m{m[0] % 3 + 1}", f"s{m[0] % 2 + 1}", number=m[0], order_time_ms=m[0] * 7 % 5, asked=m[1])
)
states = st.builds(
    State,
    country=st.sampled_from([None, "ES", "FR"]),
    birth_year=st.sampled_from([None, "1980"]),
    sessions=st.lists(
        st.tuples(st.sampled_from(["s1", "s2", "s\x003"]), st.integers(100, 130)), max_size=3, unique_by=lambda s: s[0]
    ).map(tuple),
    seen=st.lists(
        st.tuples(st.sampled_from(["m1", "m2", "0" * 8 + "-0000" * 3 + "-" + "0" * 12]), st.integers(0, 9)),
        max_size=3,
        unique_by=lambda m: m[0],
    ).map(tuple),
    money=st.lists(moneys, max_size=3, unique_by=lambda m: m.number).map(tuple),
)
batches = st.dictionaries(st.sampled_from(USERS), st.none() | states, max_size=3)
steps = st.lists(
    st.one_of(
        batches, batches, st.sampled_from(["restart", "sweep"]), st.sampled_from(USERS).map(lambda u: ("forget", u))
    ),
    min_size=1,
    max_size=14,
)


@dataclass
class Model:
    """Every version's entries, as dicts."""

    now: Entries = field(default_factory=dict)
    versions: dict[int, Entries] = field(default_factory=dict)
    forgotten: set[bytes] = field(default_factory=set)

    def put(self, batch: int, changed: list[tuple[bytes, bytes | None]]) -> None:
        self._drop({key for key, _ in changed if is_of_lookup(key) and entry_of(key)[0] in self.forgotten})
        self.now = dict(self.now)
        for key, value in changed:
            self.now.pop(key, None)
            if value is not None:
                self.now[key] = value
        self.versions[batch] = self.now

    def _drop(self, ended: set[bytes]) -> None:
        """An open lookup of a forgotten user leaves nothing behind when it ends."""
        for batch, there in self.versions.items():
            self.versions[batch] = {k: v for k, v in there.items() if k not in ended}

    def forget(self, user: bytes) -> None:
        """Only lookups that are open are left, as they are."""
        open_now = {k: v for k, v in of_user(self.now, user).items() if is_of_lookup(k)}
        self.forgotten.add(user)
        for batch, there in self.versions.items():
            gone = {k for k in of_user(there, user) if open_now.get(k) != there[k]}
            self.versions[batch] = {k: v for k, v in there.items() if k not in gone}


def is_of_lookup(key: bytes) -> bool:
    return key.startswith(MODEL.plan.kinds[LOOKUP].prefix)


def is_proof(key: bytes) -> bool:
    return key.startswith(MODEL.proof)


class Replica:
    """Store and reader of a new folder. A batch's watermark is its number."""

    def __init__(self, rules: Mapping[str, Any] | None = None) -> None:
        self.rules = rules or {}  # of each batch
        self.data = tempfile.mkdtemp(prefix="moneystate-test-")
        self.name = files.begin_generation(self.data)
        self.batch = 0
        self.open()
        Loader(self.store).finish({}, 1, 1, {0: 0})

    def open(self) -> None:
        self.store = Store(files.open_primary(self.data, self.name), MODEL)
        self.applier = Applier(self.store, at_once=2)
        self.sweep = RetentionSweep(self.store, RetentionPolicy(versions=3, grace_ms=0))
        self.reader = ReplicaReader(MODEL, self.store.db)

    def apply(self, changed: list[tuple[bytes, bytes | None]]) -> None:
        end = End(Version("e", self.batch), self.batch, (0,), 1, None, 1_000 + self.batch, 1, self.rules)
        batch_slice = BatchSlice(end, [change_of(k, v, MODEL) for k, v in changed], 0, self.batch, self.batch + 1)
        self.applier.apply(batch_slice, exact=True)
        self.applier.apply(batch_slice, exact=True)  # as after a kill: it is in already
        self.batch += 1
        self.reader.refresh()

    def restart(self) -> None:
        self.store.close()
        self.open()

    def sweep_all(self) -> None:
        for _ in range(3):
            while self.sweep.step(10_000):
                pass
        self.reader.refresh()

    def record(self, name: str, user: bytes, batch: int | None = None, id: str = "") -> Any:
        """A record at a version; without `batch`: at the newest. None: there is none."""
        snapshot = self.reader.latest() if batch is None else self.reader.at_version(Version("e", batch))
        return snapshot.record(snapshot.plan.kinds[name], user, id.encode())

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.data)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(steps)
@example([{b"a": State(country="ES")}, {b"a": None}, {b"ab": State(country="FR")}, {b"ab": State(country="ES")}])
def test_every_version_kept_answers_as_plain_dicts_do(plan: list[object]) -> None:
    replica, model = Replica(), Model()
    try:
        for step in plan:
            run(replica, model, step)
        assert_same(replica, model)
    finally:
        replica.close()


def run(replica: Replica, model: Model, step: object) -> None:
    if step == "restart":
        replica.restart()
    elif step == "sweep":
        replica.sweep_all()
    elif isinstance(step, tuple):
        forget(replica, model, step[1])
    else:
        assert isinstance(step, dict)
        changed = []
        for user, state in step.items():
            there = {k: v for k, v in of_user(model.now, user).items() if not is_proof(k)}
            changed += changes(there, entries(user, state))
        model.put(replica.batch, changed)
        replica.apply(changed)


def forget(replica: Replica, model: Model, user: bytes) -> None:
    gone = {k: v for k, v in of_user(model.now, user).items() if not is_proof(k) and not is_of_lookup(k)}
    changed = changes(gone, {}) + list(forgotten(user, f"r-{replica.batch}", AFTER_ALL_MS).items())
    model.forget(user)
    model.put(replica.batch, changed)
    replica.apply(changed)
    assert_no_past(replica, user)


def assert_no_past(replica: Replica, user: bytes) -> None:
    db = replica.store.db
    assert [key for key, _ in db.items(rows.PAST, rows.after(rows.PAST)) if owner_of_past(key) == user] == []
    assert [key for key, _ in db.items(rows.INDEX_HISTORY, rows.after(rows.INDEX_HISTORY)) if ended(key) == user] == []


def owner_of_past(key: bytes) -> bytes:
    return rows.split_entry(rows.past_entry(key))[0]


def ended(key: bytes) -> bytes:
    """The owner of an index key that ended."""
    index_key = key[len(rows.index_history_start(0, 0)) : -rows.LONG_BYTES]
    return place_of(index_key[2 : 2 + index_key[1]].decode(), index_key).owner


def of_user(there: Entries, user: bytes) -> Entries:
    return {k: v for k, v in there.items() if entry_of(k)[0] == user}


def assert_same(replica: Replica, model: Model) -> None:
    for batch, there in model.versions.items():
        version = Version("e", batch)
        if batch < oldest(replica):
            with pytest.raises(Pruned):
                replica.reader.at_version(version)
            continue
        assert replica.reader.at_time(batch).header.version == version
        assert_entries(replica, version, there)
        assert_indices(replica, version, there)
    if replica.batch:
        users = {entry_of(k)[0] for k in model.now if k.startswith(MODEL.plan.kinds["user"].prefix)}
        assert replica.reader.status().keys == len(users)


def oldest(replica: Replica) -> int:
    version = replica.reader.status().oldest
    return 0 if version is None else version.batch


def assert_entries(replica: Replica, version: Version, there: Entries) -> None:
    snapshot = replica.reader.at_version(version)
    ordered = sorted((entry_of(key)[1], key, value) for key, value in there.items())
    listed = paged(lambda after: snapshot.entries(limit=2, after=after))
    assert [(e.key, e.value) for e in listed] == [(k, v) for _, k, v in ordered]
    for user in USERS:
        key = key_of("user", user)
        assert snapshot.read(entry_of(key)[1]) == there.get(key)


def assert_indices(replica: Replica, version: Version, there: Entries) -> None:
    """What an index finds is what the entries of the version lead to."""
    wanted: set[bytes] = set()
    for key, value in there.items():
        change = change_of(key, value, MODEL)
        wanted |= MODEL.index_keys(change.owner, change.kind, change.rest, value)
    view: Any = ReplicaView(replica.reader.at_version(version))
    for name, index in MODEL.plan.service.indices.items():
        of_index = sorted(place_of(name, key) for key in wanted if key[2:].startswith(name.encode()))
        listed = list(view.range(index))
        assert [(owner, id) for owner, id, _ in listed] == [(p.owner.decode(), p.id.decode()) for p in of_index]


def paged(read: Callable[[bytes | None], Page[Item]]) -> list[Item]:
    items: list[Item] = []
    after = None
    while True:
        page = read(after)
        items += page.items
        after = page.after
        if after is None:
            return items
