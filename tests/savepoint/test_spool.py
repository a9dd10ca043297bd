"""Entries put aside by key group come back whole, each in the group of its user."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.engine.keygroup import key_group_of
from moneystate.errors import CheckpointError
from moneystate.runtime.layout import ENTRY, SEEN, VALUE, entry_key, prefix_of
from moneystate.savepoint.spool import BUFFER_BYTES, Spool
from tests.enrichment.jobs import STATE

GROUPS = 5
USER, IDS, WAITING = prefix_of(VALUE, "user"), prefix_of(SEEN, "wallet-events"), prefix_of(ENTRY, "waiting")
BIG = b"v" * (BUFFER_BYTES // 3)  # so that some are in files and some in memory


def test_entries_come_back_by_key_group_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    spool = Spool(STATE, tmp_path, GROUPS)
    wanted: dict[int, list[tuple[bytes, bytes]]] = {group: [] for group in range(GROUPS)}
    for n in range(8):
        user = f"user-{n}".encode()
        for prefix, id, value in ((USER, b"", BIG), (IDS, b"3", b""), (WAITING, b"money", b"w")):
            key = entry_key(prefix, user, id)
            spool.put(key, value)
            wanted[key_group_of(user, GROUPS)].append((key, value))
    assert {group: list(spool.entries(group)) for group in range(GROUPS)} == wanted
    assert {group: list(spool.entries(group)) for group in range(GROUPS)} == wanted


def test_what_belongs_to_no_user_is_refused(tmp_path: Path) -> None:
    for key in (b"c", b"x-of-a-newer-program", b""):
        with pytest.raises(CheckpointError, match="owner"):
            Spool(STATE, tmp_path, GROUPS).put(key, b"")
