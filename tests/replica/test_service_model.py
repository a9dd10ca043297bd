"""A service's replica against plain dictionaries: at every version that is kept, whatever the service did."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from examples.orders import orders
from moneystate.records import index_order
from moneystate.records.index_order import Span
from moneystate.replica import files, rows
from moneystate.replica.applying import Applier
from moneystate.replica.differences import differences
from moneystate.replica.files import FORMAT
from moneystate.replica.listing import COMPARED
from moneystate.replica.loading import Loader
from moneystate.replica.model import EventPlace, Page, Pruned, SetTimer, Version
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.retention import RetentionPolicy, RetentionSweep
from moneystate.replica.snapshot import Snapshot
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, EntryChange, change_of
from moneystate.replica.view import ReplicaView
from moneystate.runtime.cells import Cell
from moneystate.runtime.entry_view import EntryView
from moneystate.runtime.replica_model import ReplicaModel
from moneystate.testing import Bench
from moneystate.testing.run import Crash, Run, Sent
from tests.api.services import market
from tests.api.services.market import Moved, Offered
from tests.api.test_index import Plain, S, check_equal, market_events
from tests.budget import examples

MODEL = ReplicaModel("tests.api.services.market:service")
KEPT = 4
GOLDEN = Path(__file__).parent.parent / "golden" / "replica" / f"service-v{FORMAT}.hex"
T = TypeVar("T")
SELLERS = ["", "a", "ab", "b", "é", "\x00"]


class Entries:
    """The entries of one version (`moneystate.runtime.entry_view.ReadEntries`)."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.entries = entries

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return (entry for entry in self.entries.items() if entry[0].startswith(prefix))


class Market:
    """The service in memory, with a replica of it: a version for each batch."""

    def __init__(self) -> None:
        self.run = Run(MODEL.plan, 0, dict.fromkeys(MODEL.plan.topics, 1), 3, False)
        self.codes = {topic: code for code, topic in MODEL.plan.topics.items()}
        self.offsets = dict.fromkeys(MODEL.plan.topics, 0)
        self.now: dict[bytes, bytes] = {}
        self.versions: list[tuple[int, dict[bytes, bytes]]] = []
        self.data = tempfile.mkdtemp(prefix="moneystate-test-")
        self.name = files.begin_generation(self.data)
        self.open()
        Loader(self.store).finish({}, 1, 1, {0: 0})

    def open(self) -> None:
        self.store = Store(files.open_primary(self.data, self.name), MODEL)
        self.applier = Applier(self.store, at_once=2)
        self.sweep = RetentionSweep(self.store, RetentionPolicy(versions=KEPT, grace_ms=0))
        self.reader = ReplicaReader(MODEL, self.store.db)

    def batch(self, events: list[Any]) -> None:
        log: list[Sent | Crash] = []
        for event in events:
            topic = "moved" if isinstance(event, Moved) else "offered"
            log.append(self._sent(topic, MODEL.plan.codecs[type(event)].encode(event)))
        if events:
            beat = self.run.heartbeat(max(e.at for e in events))
            log += [self._sent(topic, beat) for topic in self.codes]
        before = len(self.run.sim.changes)
        self.run.batch(log)
        changed = self.run.sim.changes[before:]
        for key, value in changed:
            self.now.pop(key, None)
            if value is not None:
                self.now[key] = value
        batch, watermark = len(self.versions), self.run.sim.watermark
        self.versions.append((watermark, dict(self.now)))
        end = End(Version("e", batch), watermark, (0,), 1, None, 1_000 + batch, 1, {"keep_ms": 10 * S})
        whole = BatchSlice(end, [change_of(k, v, MODEL) for k, v in changed], 0, batch, batch + 1)
        self.applier.apply(whole, exact=True)
        self.applier.apply(whole, exact=True)  # as after a kill: it is in already
        self.reader.refresh()

    def _sent(self, topic: str, value: bytes) -> Sent:
        code = self.codes[topic]
        self.offsets[code] += 1
        return Sent(code, 0, self.offsets[code] - 1, value)

    def sweep_all(self) -> None:
        for _ in range(3):
            while self.sweep.step(10_000):
                pass
        self.reader.refresh()

    def restart(self) -> None:
        self.store.close()
        self.open()

    def readable(self) -> dict[int, Snapshot]:
        there = {}
        for batch in range(len(self.versions)):
            try:
                there[batch] = self.reader.at_version(Version("e", batch))
                there[batch].check()
            except Pruned:
                there.pop(batch, None)
        return there

    def view(self, batch: int) -> EntryView:
        watermark, entries = self.versions[batch]
        return EntryView(MODEL.plan, Entries(entries), watermark)

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.data)


@pytest.fixture
def replica() -> Iterator[Market]:
    made = Market()
    yield made
    made.close()


steps = st.lists(
    st.lists(market_events, max_size=6) | st.sampled_from(["restart", "sweep"]), min_size=1, max_size=14
)  # fmt: skip


def run(replica: Market, plan: list[Any]) -> list[Any]:
    """The events, in the order in which they are processed. Each batch goes on where the one before ended."""
    done: list[Any] = []
    clock = 0
    for step in plan:
        if step == "restart":
            replica.restart()
        elif step == "sweep":
            replica.sweep_all()
        else:
            moved = [type(e)(**{**vars(e), "at": clock + e.at // 6}) for e in step]
            moved.sort(key=lambda e: (e.at, isinstance(e, Offered)))
            clock = max([clock, *(e.at for e in moved)])
            done += moved
            replica.batch(moved)
    return sorted(done, key=lambda e: (e.at, isinstance(e, Offered)))


@settings(max_examples=examples(50), phases=(Phase.reuse, Phase.generate), suppress_health_check=list(HealthCheck))
@given(steps)
def test_answers_at_every_version_equal_a_dictionary(plan: list[Any]) -> None:
    replica = Market()
    try:
        events = run(replica, plan)
        for batch, snapshot in replica.readable().items():
            watermark = replica.versions[batch][0]
            check_equal(ReplicaView(snapshot), Plain([e for e in events if e.at < watermark]))
            check_listings(snapshot, replica.view(batch))
        check_differences(replica)
    finally:
        replica.close()


def check_listings(snapshot: Snapshot, view: EntryView) -> None:
    """What listings give page by page is what a view gives."""
    kinds = snapshot.plan.kinds
    for name in ("seller", "last"):
        listed = {item.owner: item.record for item in pages(snapshot.keys, kinds[name], b"", b"", b"", 2)}
        there = {s.encode(): snapshot.record(kinds[name], s.encode()) for s in SELLERS}
        assert listed == {owner: record for owner, record in there.items() if record is not None}
    for seller in SELLERS:
        items = pages(snapshot.entries_of, kinds["offers"], seller.encode(), b"x", 1)
        assert [(i.id.decode(), i.record) for i in items] == list(view.entries(market.offers, seller, "x"))
        ids = ["y2", *(id for id, _ in view.entries(market.offers, seller)), "absent"]
        by_id = view.entries_by_id(market.offers, seller, ids)
        assert ReplicaView(snapshot).entries_by_id(market.offers, seller, ids) == by_id
        assert list(by_id.items()) == [
            (id, its) for id in dict.fromkeys(ids) if (its := view.entry(market.offers, seller, id))
        ]
    every = pages(snapshot.keys, kinds["offers"], b"", b"a", b"b", 1)
    assert [(i.owner.decode(), i.id.decode(), i.record) for i in every] == [
        (s, id, offer) for s in ("a", "ab") for id, offer in view.entries(market.offers, s)
    ]
    span = index_order.span_between(("x",), ("y", 200), "")
    matching = pages(snapshot.matching, market.by_price, span, 1)
    assert [(i.owner.decode(), i.id.decode(), i.record) for i in matching] == list(
        view.range(market.by_price, ("x",), ("y", 200))
    )


def pages(read: Callable[..., Page[T]], *arguments: Any) -> list[T]:
    items: list[T] = []
    page = read(*arguments, None)
    while True:
        items += page.items
        if page.after is None:
            return items
        page = read(*arguments, page.after)


def visible(replica: Market, batch: int) -> dict[tuple[str, bytes, bytes], Any]:
    """Everything that can be read, by state, key and id."""
    view, plan = replica.view(batch), MODEL.plan
    there = {}
    for name, kind in plan.kinds.items():
        for seller in SELLERS:
            for id, stored in view.stored_ids(kind, seller.encode(), b""):
                record = view.record(kind, stored)
                if record is not None:
                    there[name, seller.encode(), id] = record
    return there


def check_differences(replica: Market) -> None:
    snapshots = replica.readable()
    for before in snapshots:
        for after in snapshots:
            old, new = visible(replica, before), visible(replica, after)
            listed = pages(differences, snapshots[before], snapshots[after], 2)
            there = {(d.after.state, d.after.owner, d.after.id): (d.before.record, d.after.record) for d in listed}
            keys = [k for k in old.keys() | new.keys() if k[0] in ("seller", "offers")]  # else time decides, too
            assert {k: v for k, v in there.items() if k in keys} == {
                k: (old.get(k), new.get(k)) for k in keys if old.get(k) != new.get(k)
            }
            for key, (was, now) in there.items():
                assert (was, now) == (old.get(key), new.get(key))


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(steps, st.sampled_from([None, "a", "é"]))
def test_who_follows_the_changes_has_what_there_is(plan: list[Any], seller: str | None) -> None:
    replica = Market()
    try:
        run(replica, plan)
        snapshots = replica.readable()
        if not snapshots:
            return
        first = min(snapshots)
        owner = None if seller is None else seller.encode()
        seen = {k: v for k, v in visible(replica, first).items() if owner in (None, k[1])}
        latest, mark = Version("e", first), None
        while True:
            changes = replica.reader.item_changes(latest, owner, 2, mark)
            for item in changes.items:
                seen.pop((item.state, item.owner, item.id), None)
                if item.record is not None:
                    seen[item.state, item.owner, item.id] = item.record
            mark = changes.mark
            if mark is None:
                if changes.header.version == latest:
                    break
                latest = changes.header.version
        there = {k: v for k, v in visible(replica, latest.batch).items() if owner in (None, k[1])}
        assert latest == Version("e", len(replica.versions) - 1)
        # what has expired is told of when it is removed
        expired = {k: v for k, v in seen.items() if k not in there and k[0] in ("last", "looks")}
        assert {k: v for k, v in seen.items() if k not in expired} == there
    finally:
        replica.close()


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(steps)
def test_the_steps_of_an_entry_are_what_it_was_at_each_version(plan: list[Any]) -> None:
    replica = Market()
    try:
        run(replica, plan)
        snapshots = replica.readable()
        kind = MODEL.plan.kinds["seller"]
        for seller in SELLERS if snapshots else []:
            snapshot = snapshots[max(snapshots)]
            told = replica.reader.steps(seller.encode(), kind, b"", snapshot, 100)
            for batch in snapshots:
                then = next((s for s in told if s.header is None or s.header.version.batch <= batch), None)
                record = snapshots[batch].record(kind, seller.encode())
                assert (None if then is None else then.record) == record
    finally:
        replica.close()


def test_the_rows_of_an_index_are_bounded_and_end_with_the_history(replica: Market) -> None:
    for n in range(60):
        replica.batch([Moved("a", "ES", n, n * S), Moved("b", "PT", -n, n * S)])
        if n % 5 == 4:
            replica.sweep_all()
    live = [key for key, _ in replica.store.db.items(rows.INDEX, rows.after(rows.INDEX))]
    assert len(live) == 2 * 3  # country, score, last score
    ended = [key for key, _ in replica.store.db.items(rows.INDEX_HISTORY, rows.after(rows.INDEX_HISTORY))]
    assert 0 < len(ended) <= 4 * 2 * KEPT
    scores = [seller.score for _, seller in ReplicaView(replica.reader.latest()).range(market.by_score)]
    assert scores == sorted(scores)
    assert len(scores) == 2


def test_a_look_at_the_newest_version_reads_no_rows_of_the_past(replica: Market, monkeypatch: Any) -> None:
    """An index by time has its oldest rows first: all that were ever there, if they stayed."""
    for n in range(30):
        replica.batch([Moved("a", "ES", n, n * S)])
    read: list[bytes] = []
    items = replica.store.db.items

    def noted(start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, value in items(start, end):
            read.append(key)
            yield key, value

    monkeypatch.setattr(replica.store.db, "items", noted)
    assert [s.score for _, s in ReplicaView(replica.reader.latest()).range(market.by_score)] == [28]
    assert len(read) == 1


def test_a_listing_of_a_map_ends_its_page_where_keys_have_no_entry_of_it(
    replica: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moneystate.replica.snapshot.EXAMINED", 10)
    replica.batch([*(Moved(f"{n:02}", "ES", 1, S) for n in range(30)), Offered("29", "x", 5, [], S)])
    replica.batch([Moved("30", "ES", 1, 2 * S)])
    snapshot = replica.reader.latest()
    marks: list[bytes | None] = [None]
    items: list[Any] = []
    while not marks[1:] or marks[-1] is not None:
        page = snapshot.keys(snapshot.plan.kinds["offers"], b"", b"", b"", 5, marks[-1])
        items += page.items
        marks.append(page.after)
    assert [(item.owner, item.id) for item in items] == [(b"29", b"x")]
    assert len(marks) > 3


@pytest.mark.parametrize("ids", [["x", "xa", "xab", "xb"], ["x", "x\x00", "x\x00\x01", "x\x01", "é", "é\U0010ffff"]])
def test_a_listing_of_an_earlier_version_has_ids_that_begin_others_once(replica: Market, ids: list[str]) -> None:
    """The past row of such an id must not come after those of the longer ones."""
    for time, cents in enumerate((5, 6, 7)):
        replica.batch([Offered("a", id, cents, [], time * S) for id in ids])
    replica.batch([Moved("b", "ES", 1, 4 * S)])
    for batch, snapshot in replica.readable().items():
        kind, there = snapshot.plan.kinds["offers"], dict(replica.view(batch).entries(market.offers, "a"))
        listed: list[Any] = []
        page = snapshot.entries_of(kind, b"a", b"", 1, None)
        for _ in ids:
            listed += page.items
            if page.after is not None:
                page = snapshot.entries_of(kind, b"a", b"", 1, page.after)
        assert page.after is None
        assert [(item.id.decode(), item.record) for item in listed] == sorted(there.items())


def test_the_rows_of_a_service_are_the_golden_ones(replica: Market) -> None:
    replica.batch([Moved("a\x00b", "ES", -300, S), Offered("a\x00b", "x", 700, ["new", "red"], S)])
    replica.batch([Moved("a\x00b", "PT", 7, 2 * S), Offered("a\x00b", "x", 0, [], 2 * S)])
    replica.batch([Moved("z", "", 0, 3 * S)])
    there = [f"{key.hex()} {value.hex()}" for key, value in replica.store.db.items(b"\x00", b"\xff")]
    assert there == GOLDEN.read_text().split("\n")[:-1]


def test_the_span_of_an_index_ends_where_another_index_begins(replica: Market) -> None:
    replica.batch([Moved("a", "ES", 5, S), Offered("a", "x", 3, ["new"], S)])
    replica.batch([Moved("b", "ES", 5, 2 * S)])
    everything = Span(b"", b"\xff")
    items = replica.reader.latest().matching(market.by_score, everything, 10, None).items
    assert {item.state for item in items} == {"seller"}


def test_a_version_that_changed_many_timers_is_told_of_in_pieces(replica: Market) -> None:
    replica.batch([Moved("a", "ES", 1, S)])
    replica.batch([])
    timers = [(b"t\x03due" + n.to_bytes(2, "big") + b"x" * n, b"timer") for n in range(COMPARED + 5)]
    end = End(Version("e", 2), 0, (0,), 1, None, 1_002, 1, {})
    replica.applier.apply(BatchSlice(end, [change_of(k, v, MODEL) for k, v in timers], 0, 2, 3), exact=True)
    replica.reader.refresh()
    told = replica.reader.item_changes(Version("e", 1), None, 10, None)
    assert told.items == ()
    assert told.mark is not None
    rest = replica.reader.item_changes(Version("e", 1), None, 10, told.mark)
    assert (rest.items, rest.mark, rest.header.version.batch) == ((), None, 2)


def test_the_timers_of_a_key_tell_the_events_that_set_them(tmp_path: Path) -> None:
    bench = Bench(orders.service, bound_ms=0)
    bench.send(orders.OrderPlaced("b", "eve", 5, 60 * S), orders.OrderPlaced("a", "eve", 700, 61 * S))
    model = ReplicaModel("examples.orders.orders:service")
    store = Store(files.open_primary(str(tmp_path), files.begin_generation(str(tmp_path))), model)
    Loader(store).finish({}, 1, 1, {0: 0})
    end = End(Version("e", 0), 62 * S, (0,), 1, None, 1_000, 1, {"wait_ms": 5, "topics": {"orders": 7, "payments": 9}})
    entries = [change_of(key, value, model) for key, value in bench.entries()]
    Applier(store).apply(BatchSlice(end, [_from_topic_7(change) for change in entries], 0, 0, 1), exact=True)
    timers = ReplicaReader(model, store.db).latest().timers(b"a", 10)
    store.close()
    # topics have the numbers that the job has given them
    assert timers == [SetTimer("overdue", b"", 61 * S + 1_800_000, EventPlace("orders", 0, 1, 61 * S))]


def _from_topic_7(change: EntryChange) -> EntryChange:
    """As a job wrote it to whom this number stands for the orders."""
    kind = ReplicaModel("examples.orders.orders:service").plan.kind_of(b"t\x07overdue\x00\x00")
    if change.value is None or not change.entry.endswith(b"t\x07overdue") or kind is None:
        return change
    cell = Cell(b"", kind, b"", b"")
    cell.load(change.value)
    cell.decode()
    due, set_at, _, partition, offset = cell.value
    cell.value = (due, set_at, 7, partition, offset)
    return change._replace(value=cell.encoded())
