"""A user that is forgotten: no bytes of it are left in the replica's files, its log included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from moneystate.errors import SetupError
from moneystate.replica import files, rows
from moneystate.replica.applying import Applier
from moneystate.replica.files import Db
from moneystate.replica.loading import Loader
from moneystate.replica.model import Version
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.record import BASE
from moneystate.replica.retention import RetentionPolicy, RetentionSweep
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, EntryChange, change_of
from moneystate.replica.view import ReplicaView
from moneystate.runtime.replica_model import index_prefix
from services.enrichment import service
from tests.replica.states import LOOKUP, MODEL, Entries, Money, State, changes, entries, forgotten, key_of
from tests.replica.test_store_model import Replica, assert_no_past, is_of_lookup

# No compression makes anything shorter of these. They are in values and in index keys. The ids of entries are in the
# list of changes, too, as long as there is a history: whoever follows must be told that an entry has ended.
COUNTRY, BIRTH_YEAR, MONEY = "k7Qz2vXw9LpTsR4u", "Y3nGd8HcJb5MfKe1", "9fDhUgPl2SjBm4Xk"
SECRETS = (COUNTRY, BIRTH_YEAR, MONEY)
OTHERS = 500
STATE = State(
    country=COUNTRY,
    birth_year=BIRTH_YEAR,
    sessions=(("s-1", 99),),
    seen=((MONEY, 3),),
    money=(Money(MONEY, "s", 4, 7),),
)
LATER = State(country="ES", birth_year="1990")
PROOF = forgotten(b"me", "r", 50)
ASKED = Money("m-2", "s", 5, 7, asked=True)


MANIFEST = "MANIFEST-"  # RocksDB's list of its files, with the first and the last key of each


def found(replica: Replica, but_in: str = MANIFEST) -> list[str]:
    """The secrets that are in any file. `but_in`: files that are not looked at begin with it."""
    replica.store.erasure.wait()
    there = [f for f in files.folder(replica.data, replica.name).rglob("*") if f.is_file()]
    contents = [f.read_bytes() for f in there if not (but_in and f.name.startswith(but_in))]
    return [secret for secret in SECRETS if any(secret.encode() in content for content in contents)]


def with_history(replica: Replica) -> None:
    """The user's secrets in the present and in the past, in files and in the log, among others' rows."""
    others = [c for n in range(OTHERS) for c in changes({}, entries(f"user-{n}".encode(), State(country="FR")))]
    replica.apply([*others, *changes({}, entries(b"me", STATE))])
    replica.store.db.raw.flush(True)
    replica.apply(changes(entries(b"me", STATE), entries(b"me", LATER)))
    replica.apply(changes(entries(b"me", LATER), entries(b"me", STATE)))


def forgetting(there: Entries, proof: Entries = PROOF) -> list[tuple[bytes, bytes | None]]:
    """As the service puts it out: open lookups stay."""
    return [*changes({k: v for k, v in there.items() if not is_of_lookup(k)}, {}), *proof.items()]


def index_rows(replica: Replica, kind: bytes, name: str) -> list[bytes]:
    prefix = index_prefix(name)
    return [key for key, _ in replica.store.db.items(kind, rows.after(kind)) if prefix in key]


@pytest.fixture
def empty() -> Iterator[Replica]:
    made = Replica()
    yield made
    made.close()


@pytest.fixture
def replica(empty: Replica) -> Replica:
    with_history(empty)
    assert found(empty) == list(SECRETS)
    return empty


def test_nothing_of_a_forgotten_user_is_left_in_any_file(replica: Replica) -> None:
    for kind in (rows.INDEX, rows.INDEX_HISTORY):
        assert index_rows(replica, kind, "waiting_by_id")
    before = replica.store.erasure.written
    replica.apply(forgetting(entries(b"me", STATE)))
    assert found(replica) == []
    # a row for readers to take over: they let go of the files of before
    assert replica.store.erasure.written == before + 1
    assert_no_past(replica, b"me")
    for kind in (rows.INDEX, rows.INDEX_HISTORY):
        assert index_rows(replica, kind, "waiting_by_id") == []
    assert replica.reader.status().keys == OTHERS
    assert replica.record("forgotten", b"me").request_id == "r"
    assert [replica.record("user", b"me", batch) for batch in range(replica.batch)] == [None] * replica.batch


def test_the_keys_at_the_borders_of_deleted_files_are_gone_at_the_next_start(replica: Replica) -> None:
    """RocksDB begins a new list of its files then."""
    replica.apply(forgetting(entries(b"me", STATE)))
    replica.restart()
    assert found(replica, but_in="") == []


def test_a_kill_before_the_files_are_clean_is_made_good_at_the_next_start(replica: Replica) -> None:
    change = [change_of(k, v, MODEL) for k, v in forgetting(entries(b"me", STATE))]
    batch = WriteBatch(raw_mode=True)
    replica.applier._put(batch, change, replica.store.record.last + 1)
    replica.store.commit(batch, {})
    replica.store.db.close()
    replica.open()
    assert found(replica) == []


def test_an_open_lookup_stays_and_leaves_nothing_behind_when_its_reply_comes(replica: Replica) -> None:
    secret = State(country=COUNTRY, money=(ASKED,))  # it holds what is known of the user
    asked = entries(b"me", secret)
    (key,) = [key for key in asked if is_of_lookup(key)]
    replica.apply(changes(entries(b"me", STATE), asked))
    replica.apply(forgetting(asked))
    open_in = replica.batch - 2
    assert replica.record(LOOKUP, b"me", open_in, "m-2 5").held.user_info.resident_country_code == COUNTRY
    assert found(replica) == [COUNTRY]
    assert index_rows(replica, rows.INDEX, "lookups_by_id")
    replica.apply([(key, None), *changes({}, entries(b"me", LATER))])
    assert found(replica) == []
    assert [replica.record(LOOKUP, b"me", batch, "m-2 5") for batch in range(replica.batch)] == [None] * replica.batch
    assert_no_past(replica, b"me")
    for kind in (rows.INDEX, rows.INDEX_HISTORY):
        assert index_rows(replica, kind, "lookups_by_id") == []


def test_an_open_lookup_that_is_written_again_leaves_no_past_value(replica: Replica) -> None:
    """A new program writes it in another schema."""
    asked = entries(b"me", State(country=COUNTRY, money=(ASKED,)))
    again = {k: v for k, v in entries(b"me", State(country="PT", money=(ASKED,))).items() if is_of_lookup(k)}
    replica.apply(changes(entries(b"me", STATE), asked))
    replica.apply(forgetting(asked))
    replica.apply(list(again.items()))
    assert found(replica) == []
    assert replica.record(LOOKUP, b"me", id="m-2 5").held.user_info.resident_country_code == "PT"
    assert len(index_rows(replica, rows.INDEX, "lookups_by_id")) == 1
    assert list(ReplicaView(replica.reader.latest()).find(service.lookups_by_id, "m-2"))


def test_a_lookup_that_was_asked_later_has_a_history(replica: Replica) -> None:
    replica.apply(forgetting(entries(b"me", STATE)))
    later = entries(b"me", State(country="ES", money=(Money("m-3", "s", 6, 60, asked=True),)))
    replica.apply(changes({}, later))
    replica.apply([(key, None) for key in later if is_of_lookup(key)])
    assert replica.record(LOOKUP, b"me", replica.batch - 2, "m-3 6") is not None
    assert replica.record(LOOKUP, b"me", id="m-3 6") is None


def test_a_second_request_erases_again(replica: Replica) -> None:
    replica.apply(forgetting(entries(b"me", STATE)))
    replica.apply(changes({}, entries(b"me", STATE)))
    replica.apply(changes(entries(b"me", STATE), entries(b"me", LATER)))
    assert found(replica) == list(SECRETS)
    replica.apply(forgetting(entries(b"me", LATER), forgotten(b"me", "r-2", 60)))
    assert found(replica) == []
    assert replica.record("forgotten", b"me").request_id == "r-2"
    assert replica.record("forgotten", b"me", replica.batch - 2) is None, "the earlier proof has no history either"
    assert_no_past(replica, b"me")


def test_a_new_epoch_that_repeats_the_proof_erases_nothing(replica: Replica) -> None:
    replica.apply(forgetting(entries(b"me", STATE)))
    replica.apply(changes({}, entries(b"me", LATER)))
    replica.apply([*PROOF.items(), *changes(entries(b"me", LATER), entries(b"me", State(country="PT")))])
    newest = replica.batch - 1
    known = [replica.record("user", b"me", batch).info.resident_country_code for batch in (newest - 1, newest)]
    assert known == ["ES", "PT"]


def test_two_users_forgotten_one_soon_after_the_other_leave_nothing(replica: Replica) -> None:
    """Their ids begin alike, so that they share what is to be cleaned."""
    replica.apply(changes({}, entries(b"me2", STATE)))
    replica.apply(forgetting(entries(b"me", STATE)))
    replica.apply(forgetting(entries(b"me2", STATE), forgotten(b"me2", "r", 50)))
    assert found(replica) == []


def test_one_user_is_forgotten_and_the_rest_keep_their_history(replica: Replica) -> None:
    other = State(country="IT", money=(Money("m-9", "s", 1, 7),))
    replica.apply(changes({}, entries(b"me2", other)))
    replica.apply(changes(entries(b"me2", other), entries(b"me2", LATER)))
    replica.apply(forgetting(entries(b"me", STATE)))
    past = replica.batch - 3
    assert replica.record("user", b"me2", past).info.resident_country_code == "IT"
    found_then = ReplicaView(replica.reader.at_version(Version("e", past))).find(service.waiting_by_id, "m-9")
    assert [owner for owner, _, _ in found_then] == ["me2"]


def test_what_the_sweep_has_taken_leaves_no_index_rows_behind(empty: Replica) -> None:
    """The rows of an index key that was there for long stay longer than the value that it was of."""
    with_history(empty)
    empty.sweep = RetentionSweep(empty.store, RetentionPolicy(versions=1, grace_ms=0))
    empty.apply([])
    empty.apply(changes(entries(b"me", STATE), entries(b"me", LATER)))
    assert index_rows(empty, rows.INDEX_HISTORY, "waiting_by_id")
    empty.sweep_all()
    assert index_rows(empty, rows.INDEX_HISTORY, "waiting_by_id") == []
    empty.apply(forgetting(entries(b"me", LATER)))
    assert found(empty) == []


def test_the_files_of_the_whole_index_are_cleaned(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have bytes of index keys that ended before, of which no row is left."""
    replica.store.erasure.wait()
    rewritten: list[bytes] = []
    monkeypatch.setattr(Db, "rewrite", lambda self, ranges: rewritten.extend(start for start, _ in ranges))
    replica.apply(forgetting(entries(b"me", STATE)))
    replica.store.erasure.wait()
    me = rows.escape(b"me")
    assert set(rewritten) == {rows.INDEX, rows.INDEX_HISTORY, rows.LATEST + me, rows.PAST + me}


def test_a_replica_that_is_loaded_anew_keeps_the_proof(tmp_path: Path) -> None:
    """So an open lookup leaves nothing behind there, either."""
    asked = {k: v for k, v in entries(b"me", State(country=COUNTRY, money=(ASKED,))).items() if is_of_lookup(k)}
    store = Store(files.open_primary(str(tmp_path), files.begin_generation(str(tmp_path))), MODEL)
    loader = Loader(store)
    loaded: list[EntryChange] = [change_of(k, v, MODEL) for k, v in [*asked.items(), *PROOF.items()]]
    loader.add(0, list(enumerate(loaded)))
    loader.finish({0: (9, end_of(0))}, 1, 1, {0: 10})
    closed = [change_of(key, None, MODEL) for key in asked]
    Applier(store).apply(BatchSlice(end_of(1), closed, 0, 19, 20), exact=True)
    reader = ReplicaReader(MODEL, store.db)
    assert reader.latest().record(MODEL.plan.kinds["forgotten"], b"me").request_id == "r"
    assert store.record.newest > BASE
    assert reader.at_version(Version("e", 0)).record(MODEL.plan.kinds[LOOKUP], b"me", b"m-2 5") is None
    assert list(store.db.keys(rows.PAST, rows.after(rows.PAST))) == []
    store.close()


def end_of(batch: int) -> End:
    return End(Version("e", batch), 1_000 + batch, (0,), 1, None, 1_000 + batch, 1)


def test_a_user_that_comes_again_after_being_forgotten_has_a_history_anew(replica: Replica) -> None:
    replica.apply(forgetting(entries(b"me", STATE)))
    replica.apply(changes({}, entries(b"me", LATER)))
    replica.apply(changes(entries(b"me", LATER), entries(b"me", State(country="PT"))))
    newest = replica.batch - 1
    known = [replica.record("user", b"me", batch).info.resident_country_code for batch in (newest - 1, newest)]
    assert known == ["ES", "PT"]


def test_history_that_is_over_leaves_nothing_but_the_present(empty: Replica) -> None:
    """Changes, past values, index keys that ended and versions are gone; what is left leads to what there is."""
    empty.sweep = RetentionSweep(empty.store, RetentionPolicy(versions=1, grace_ms=0))
    there = entries(b"me", STATE)
    empty.apply(changes({}, there))
    for state in (LATER, State(country="PT", money=(Money("m", "s", 4, 7),)), LATER):
        now = entries(b"me", state)
        empty.apply(changes(there, now))
        there = now
    empty.sweep_all()
    left = [key for key, _ in empty.store.db.items(b"\x00", b"\xff")]
    assert [k for k in left if k[:1] in (rows.PAST, rows.CHANGE, rows.INDEX, rows.INDEX_HISTORY)] == []
    assert [k for k in left if k[:1] == rows.LATEST] == [
        rows.LATEST + change_of(key_of("user", b"me"), None, MODEL).entry
    ]
    assert len([k for k in left if k[:1] in (rows.REVISION, rows.VERSION, rows.WATERMARK)]) == 3


def test_files_of_a_newer_program_are_refused() -> None:
    replica = Replica()
    replica.store.record.format = files.FORMAT + 1
    replica.store.commit(WriteBatch(raw_mode=True), {})
    replica.store.close()
    with pytest.raises(SetupError):
        Store(files.open_primary(replica.data, replica.name), MODEL)
