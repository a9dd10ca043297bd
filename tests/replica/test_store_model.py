"""The store against plain dicts: random batches, sweeps and restarts, and the same answers at every version kept."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moneystate.replica import files
from moneystate.replica.applying import Applier
from moneystate.replica.loading import Loader
from moneystate.replica.model import NotFound, Page, Pruned, Version
from moneystate.replica.reader import Reader
from moneystate.replica.retention import RetentionPolicy, RetentionSweep
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, change_of
from services.enrichment.replica import decode
from services.enrichment.replica.model import Reason, UserView
from services.enrichment.replica.replica_model import REPLICA
from services.enrichment.replica.snapshot import Snapshot
from tests.budget import examples
from tests.replica.states import Entries, Money, State, changes, entries, entry_of, forgotten

BEFORE_ALL_MS = -10  # a user is forgotten before all money that is made here
USERS = [b"a", b"a\x00b", b"ab", b"\xc3\xbc"]
Item = TypeVar("Item")

# What stands at an offset of the log is always the same; only whether it was sent to lookup changes.
moneys = st.tuples(st.integers(0, 5), st.booleans()).map(
    lambda m: Money(f"m{m[0] % 3 + 1}", f"s{m[0] % 2 + 1}", offset=m[0], order_time_ms=m[0] * 7 % 5 - 2, asked=m[1])
)
states = st.builds(
    State,
    country=st.sampled_from([None, "ES", "FR"]),
    birth_year=st.sampled_from([None, "1980"]),
    sessions=st.lists(
        st.tuples(st.sampled_from(["s1", "s2", "s\x003"]), st.integers(0, 30)), max_size=3, unique_by=lambda s: s[0]
    ).map(tuple),
    seen=st.lists(
        st.tuples(st.sampled_from(["m1", "m2", "0" * 8 + "-0000" * 3 + "-" + "0" * 12]), st.integers(0, 9)),
        max_size=3,
        unique_by=lambda m: m[0],
    ).map(tuple),
    money=st.lists(moneys, max_size=3, unique_by=lambda m: m.offset).map(tuple),
    pages=st.sampled_from([1, 1, 2, 4]),
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

    def put(self, batch: int, changed: list[tuple[bytes, bytes | None]]) -> None:
        self.now = {**self.now, **{k: v for k, v in changed if v is not None}}
        for key, value in changed:
            if value is None:
                self.now.pop(key, None)
        self.versions[batch] = self.now

    def forget(self, user: bytes) -> None:
        for batch, there in self.versions.items():
            self.versions[batch] = {k: v for k, v in there.items() if entry_of(k)[0] != user}


class Replica:
    """Store and reader of a new folder. A batch's watermark is its number."""

    def __init__(self, rules: dict[str, int] | None = None) -> None:
        self.rules = rules or {}  # of each batch
        self.data = tempfile.mkdtemp(prefix="moneystate-test-")
        self.name = files.begin_generation(self.data)
        self.batch = 0
        self.open()
        Loader(self.store).finish({}, 1, 1, {0: 0})

    def open(self) -> None:
        self.store = Store(files.open_primary(self.data, self.name), REPLICA)
        self.applier = Applier(self.store, at_once=2)
        self.sweep = RetentionSweep(self.store, RetentionPolicy(versions=3, grace_ms=0))
        self.reader = Reader(REPLICA, Snapshot, self.store.db)

    def apply(self, changed: list[tuple[bytes, bytes | None]]) -> None:
        end = End(Version("e", self.batch), self.batch, (0,), 1, None, 1_000 + self.batch, 1, self.rules)
        batch_slice = BatchSlice(end, [change_of(k, v, REPLICA) for k, v in changed], 0, self.batch, self.batch + 1)
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
        user = step[1]
        before = of_user(model.now, user)
        changed = changes({k: v for k, v in before.items() if k[:1] != b"f"}, {})
        changed += list(forgotten(user, f"r-{replica.batch}", BEFORE_ALL_MS).items())
        model.forget(user)
        model.put(replica.batch, changed)
        replica.apply(changed)
    else:
        assert isinstance(step, dict)
        changed = []
        for user, state in step.items():
            there = {k: v for k, v in of_user(model.now, user).items() if k[:1] != b"f"}
            changed += changes(there, entries(user, state))
        model.put(replica.batch, changed)
        replica.apply(changed)


def of_user(there: Entries, user: bytes) -> Entries:
    return {k: v for k, v in there.items() if entry_of(k)[0] == user}


def assert_same(replica: Replica, model: Model) -> None:
    for batch, there in model.versions.items():
        version = Version("e", batch)
        if batch < oldest(replica):
            with pytest.raises(Pruned):
                replica.reader.at_version(version)
            continue
        by_entry = {entry_of(k)[1]: v for k, v in there.items()}
        views = {user: decode.user_view(user, by_entry.get, batch, None) for user in USERS}
        known = {user: view for user, view in views.items() if view is not None}
        assert_version(replica, version, known)
        assert_entries(replica, version, there)
    assert_diffs(replica, model)
    if replica.batch:
        users = {entry_of(k)[0] for k in model.now if k[:1] == b"u"}
        assert replica.reader.status().users == len(users)


def oldest(replica: Replica) -> int:
    version = replica.reader.status().oldest
    return 0 if version is None else version.batch


def assert_version(replica: Replica, version: Version, known: dict[bytes, UserView]) -> None:
    snapshot = replica.reader.at_version(version)
    assert replica.reader.at_time(version.batch).header.version == version
    for user in USERS:
        if user in known:
            assert snapshot.user(user.decode()) == known[user]
        else:
            with pytest.raises(NotFound):
                snapshot.user(user.decode())
    ordered = [known[user] for user in sorted(known)]
    assert paged(lambda after: snapshot.users(limit=2, after=after)) == ordered
    begins = [v for v in ordered if v.user_id.startswith("a")]
    assert paged(lambda after: snapshot.users(prefix="a", limit=2, after=after)) == begins
    spanish = [v for v in ordered if v.country is not None and v.country.value == "ES"]
    assert paged(lambda after: snapshot.users(country="ES", limit=1, after=after)) == spanish
    assert_sessions(replica, version, ordered)
    assert_money(replica, version, ordered)


def assert_entries(replica: Replica, version: Version, there: Entries) -> None:
    snapshot = replica.reader.at_version(version)
    ordered = sorted((entry_of(key)[1], key, value) for key, value in there.items())
    for prefix in ("", "a", "a\x00", "\xfc", "b"):
        begins = [(k, v) for _, k, v in ordered if entry_of(k)[0].startswith(prefix.encode())]
        listed = paged(lambda after, p=prefix: snapshot.entries(prefix=p, limit=2, after=after))  # type: ignore[misc]
        assert [(e.key, e.value) for e in listed] == begins


def assert_sessions(replica: Replica, version: Version, ordered: list[UserView]) -> None:
    snapshot = replica.reader.at_version(version)
    for id in ("s1", "s2", "s\x003", "none"):
        holders = [(v.user_id, s) for v in ordered for s in v.sessions if s.id == id]
        if holders:
            assert snapshot.session(id) == holders[0]
        else:
            with pytest.raises(NotFound):
                snapshot.session(id)


def assert_money(replica: Replica, version: Version, ordered: list[UserView]) -> None:
    snapshot = replica.reader.at_version(version)
    pending = [p for v in ordered for p in (*v.waiting, *v.looking_up)]
    pending.sort(key=lambda p: (p.order_time_ms, p.user_id.encode(), p.source.offset))
    assert paged(lambda after: snapshot.pending(limit=2, after=after)) == pending
    asked = [p for p in pending if p.reason is Reason.SESSION_MISSING]
    assert paged(lambda after: snapshot.pending(reason=Reason.SESSION_MISSING, limit=1, after=after)) == asked
    for id in ("m1", "m2", "m3"):
        holders = {p.user_id for p in pending if p.money_id == id}
        seen = {v.user_id for v in ordered for m in v.seen_money if m.id == id}
        if holders or seen:
            assert snapshot.money(id).user_id in (holders or seen)
        else:
            with pytest.raises(NotFound):
                snapshot.money(id)


def assert_diffs(replica: Replica, model: Model) -> None:
    """From the oldest version to each: what Diff and Watch say leads from the one to the other."""
    readable = [batch for batch in model.versions if batch >= oldest(replica)]
    if not readable:
        return
    first = replica.reader.at_version(Version("e", readable[0]))
    for batch in readable:
        then = replica.reader.at_version(Version("e", batch))
        differences = paged(lambda mark, to=then: replica.reader.diff(first, to, limit=1, mark=mark))  # type: ignore[misc]
        changed = {c.user_id: (c.before, c.after) for c in differences}
        for user in USERS:
            views = first.find(user), then.find(user)
            touched = of_user(model.versions[readable[0]], user) != of_user(model.versions[batch], user)
            if touched and views[0] != views[1]:
                assert changed.pop(user.decode()) == views
        assert all(before != after for before, after in changed.values())
    assert_watch(replica, readable)


def assert_watch(replica: Replica, readable: list[int]) -> None:
    start = replica.reader.at_version(Version("e", readable[0]))
    seen = {user.decode(): start.find(user) for user in USERS}
    version, mark = start.header.version, None
    while True:
        told = replica.reader.changes(version, limit=1, mark=mark)
        seen.update(dict(told.changed))
        mark = told.mark
        if mark is None:
            if told.header.version == version:
                break
            version = told.header.version
    newest = replica.reader.latest()
    touched = {user.decode(): newest.find(user) for user in USERS}
    assert {u: _lasting(v) for u, v in seen.items()} == {u: _lasting(v) for u, v in touched.items()}


def _lasting(view: UserView | None) -> object:
    """Without sessions, which expire without a change."""
    return view and (view.birth_year, view.country, view.seen_money, view.waiting, view.looking_up)


def paged(read: Callable[[bytes | None], Page[Item]]) -> list[Item]:
    items: list[Item] = []
    after = None
    while True:
        page = read(after)
        items += page.items
        after = page.after
        if after is None:
            return items
