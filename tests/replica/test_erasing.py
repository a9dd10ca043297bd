"""A user that is forgotten: no bytes of it are left in the replica's files, its log included."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocksdict import WriteBatch

from moneystate.errors import SetupError
from moneystate.replica import files, rows
from moneystate.replica.lineage import Lineage
from moneystate.replica.model import Version
from moneystate.replica.retention import RetentionPolicy, RetentionSweep
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import change_of
from services.enrichment.replica.model import Where
from services.enrichment.replica.replica_model import REPLICA
from tests.replica.states import Money, State, changes, entries, forgotten
from tests.replica.test_store_model import Replica

# no compression makes anything shorter of these
COUNTRY, BIRTH_YEAR, SESSION, MONEY = "k7Qz2vXw9LpTsR4u", "Y3nGd8HcJb5MfKe1", "aW6tVx0oZiNqEyCr", "9fDhUgPl2SjBm4Xk"
OTHERS = 500
SECRETS = (COUNTRY, BIRTH_YEAR, SESSION, MONEY)
STATE = State(
    country=COUNTRY, birth_year=BIRTH_YEAR, sessions=((SESSION, 99),), seen=((MONEY, 3),),
    money=(Money("m", SESSION, 4, 7),),
)  # fmt: skip
LATER = State(country="ES", birth_year="1990")


def found(replica: Replica) -> list[str]:
    replica.store.erasure.wait()
    files_there = [f for f in Path(files.folder(replica.data, replica.name)).rglob("*") if f.is_file()]
    return [secret for secret in SECRETS if any(secret.encode() in f.read_bytes() for f in files_there)]


def with_history(replica: Replica) -> None:
    """The user's secrets in the present and in the past, in files and in the log, among others' rows."""
    others = [c for n in range(OTHERS) for c in changes({}, entries(f"user-{n}".encode(), State(country="FR")))]
    replica.apply([*others, *changes({}, entries(b"me", STATE))])
    replica.store.db.raw.flush(True)
    replica.apply(changes(entries(b"me", STATE), entries(b"me", LATER)))
    replica.apply(changes(entries(b"me", LATER), entries(b"me", STATE)))
    Lineage(replica.store, REPLICA.trace).add(
        [(0, 5, 1_000, b"me", b'{"money": {"id": "' + MONEY.encode() + b'"}}', b"")]
    )


@pytest.fixture
def replica() -> Replica:
    made = Replica()
    with_history(made)
    assert found(made) == list(SECRETS)
    return made


def test_nothing_of_a_forgotten_user_is_left_in_any_file(replica: Replica) -> None:
    before = replica.store.erasure.written
    replica.apply([*changes(entries(b"me", STATE), {}), *forgotten(b"me", "r", 9).items()])
    assert found(replica) == []
    # a row for readers to take over: they let go of the files of before
    assert replica.store.erasure.written == before + 1
    assert len(replica.reader.latest().users(limit=999, after=None).items) == OTHERS
    assert replica.reader.latest().forgotten("me").request_id == "r"
    replica.close()


def test_a_kill_before_the_files_are_clean_is_made_good_at_the_next_start(replica: Replica) -> None:
    change = [
        change_of(k, v, REPLICA) for k, v in [*changes(entries(b"me", STATE), {}), *forgotten(b"me", "r", 9).items()]
    ]
    batch = WriteBatch(raw_mode=True)
    replica.applier._put(batch, change, replica.store.record.last + 1)
    replica.store.commit(batch, {})
    replica.restart()
    assert found(replica) == []
    replica.close()


def test_money_at_a_lookup_when_its_user_was_forgotten_leaves_nothing_behind(replica: Replica) -> None:
    """It waits on, as it is to be put out; then it is gone from the versions of meanwhile, too."""
    asked = entries(b"me", State(money=(Money("m-2", SESSION, 4, 7, asked=True),)))
    waits = [key for key in asked if key[:1] == b"w"]
    replica.apply([*changes(entries(b"me", STATE), asked), *forgotten(b"me", "r", 9).items()])
    assert replica.reader.latest().money("m-2").where is Where.LOOKING_UP
    assert found(replica) == [SESSION]
    replica.apply([*((key, None) for key in waits), *changes({}, entries(b"me", LATER))])
    assert found(replica) == []
    replica.close()


def test_all_users_that_a_new_epoch_knows_to_be_forgotten_keep_what_came_later(replica: Replica) -> None:
    proof = forgotten(b"me", "r", 9)
    replica.apply([*changes(entries(b"me", STATE), {}), *proof.items()])
    replica.apply(changes({}, entries(b"me", LATER)))
    replica.apply([*proof.items(), *changes(entries(b"me", LATER), entries(b"me", State(country="PT")))])
    newest = replica.reader.latest()
    before = replica.reader.at_version(Version("e", newest.header.version.batch - 1))
    assert [s.user("me").country.value for s in (before, newest)] == ["ES", "PT"]  # type: ignore[union-attr]
    replica.close()


def test_two_users_forgotten_one_soon_after_the_other_leave_nothing(replica: Replica) -> None:
    """Their ids begin alike, so that they share what is to be cleaned."""
    replica.apply(changes({}, entries(b"me2", STATE)))
    replica.apply([*changes(entries(b"me", STATE), {}), *forgotten(b"me", "r", 9).items()])
    replica.apply([*changes(entries(b"me2", STATE), {}), *forgotten(b"me2", "r", 9).items()])
    assert found(replica) == []
    replica.close()


def test_a_user_that_comes_again_after_being_forgotten_has_a_history_anew(replica: Replica) -> None:
    replica.apply([*changes(entries(b"me", STATE), {}), *forgotten(b"me", "r", 9).items()])
    replica.apply(changes({}, entries(b"me", LATER)))
    replica.apply(changes(entries(b"me", LATER), entries(b"me", State(country="PT"))))
    newest = replica.reader.latest()
    before = replica.reader.at_version(Version("e", newest.header.version.batch - 1))
    assert [s.user("me").country.value for s in (before, newest)] == ["ES", "PT"]  # type: ignore[union-attr]
    replica.close()


def test_history_that_is_over_leaves_nothing_but_the_present() -> None:
    """Changes, past values, index keys that ended and versions are gone; what is left leads to what there is."""
    replica = Replica()
    replica.sweep = RetentionSweep(replica.store, RetentionPolicy(versions=1, grace_ms=0))
    there = entries(b"me", STATE)
    replica.apply(changes({}, there))
    for state in (LATER, State(country="PT", money=(Money("m", "s", 4, 7),)), LATER):
        now = entries(b"me", state)
        replica.apply(changes(there, now))
        there = now
    replica.sweep_all()
    left = [key for key, _ in replica.store.db.items(b"\x00", b"\xff")]
    assert [k for k in left if k[:1] in (rows.PAST, rows.CHANGE, rows.PENDING_HISTORY, rows.PENDING)] == []
    assert [k for k in left if k[:1] == rows.INDEX] == [b"IcES\x00\x01me", b"Iume"]
    assert len([k for k in left if k[:1] in (rows.REVISION, rows.VERSION, rows.WATERMARK)]) == 3
    replica.close()


def test_files_of_a_newer_program_are_refused() -> None:
    replica = Replica()
    replica.store.record.format = files.FORMAT + 1
    replica.store.commit(WriteBatch(raw_mode=True), {})
    replica.store.close()
    with pytest.raises(SetupError):
        Store(files.open_primary(replica.data, replica.name), REPLICA)
