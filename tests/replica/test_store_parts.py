"""A version goes in part by part; a kill after any of them changes nothing in the end."""

from __future__ import annotations

import pytest
from rocksdict import WriteBatch

from moneystate.replica import rows
from moneystate.replica.files import Db
from tests.replica.states import Money, State, changes, entries
from tests.replica.test_store_model import Replica

BEFORE = {b"user-%d" % n: State(country="ES", sessions=(("s-1", 99),), seen=(("m-1", 3),)) for n in range(3)}
AFTER = {
    b"user-0": State(country="FR", money=(Money("m-2", "s-1", 4, 7),)),
    b"user-1": None,
    b"user-2": State(country="PT", sessions=(("s-1", 99),)),
}
CHANGES = [c for user in BEFORE for c in changes(entries(user, BEFORE[user]), entries(user, AFTER[user]))]


class Killed(Exception):
    pass


def test_a_kill_after_any_part_changes_nothing_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, writes = rows_after(monkeypatch, None)
    assert writes > 3
    for kill_at in range(writes - 1):  # the last is that of a second time, when all is in
        assert rows_after(monkeypatch, kill_at)[0] == whole


def rows_after(monkeypatch: pytest.MonkeyPatch, kill_at: int | None) -> tuple[list[tuple[bytes, bytes]], int]:
    """All rows, and how often was written; `kill_at`: the number of the write that does not come, at first."""
    replica = Replica()
    try:
        replica.apply([c for user, state in BEFORE.items() for c in changes({}, entries(user, state))])
        replica.store.erasure.wait()
        written = 0
        write = Db.write

        def counted(self: Db, batch: WriteBatch) -> None:
            nonlocal written
            if written == kill_at:
                raise Killed
            written += 1
            write(self, batch)

        with monkeypatch.context() as patched:
            patched.setattr(Db, "write", counted)
            try:
                replica.apply(CHANGES)
            except Killed:
                newest = replica.batch - 1
                assert replica.reader.latest().header.version.batch == newest
                replica.restart()
        if kill_at is not None:
            assert replica.record("user", b"user-1") is not None, "it is not to be seen before it is whole"
            replica.apply(CHANGES)
        return [row for row in replica.store.db.items(b"\x00", b"\xff") if row[0][:1] != rows.META], written
    finally:
        replica.close()
