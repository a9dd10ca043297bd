"""Who closes a deleted file last has the work of it: the follower, not a reader."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from moneystate.replica import files
from moneystate.replica.deferred_close import CLOSE_DELAY_S, DeferredClose
from moneystate.replica.files import Db, Secondary
from tests.replica.changelog import until


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    db = files.open_primary(str(tmp_path), files.begin_generation(str(tmp_path)))
    yield db
    db.close()


def rewrite(db: Db, value: bytes) -> None:
    batch = WriteBatch(raw_mode=True)
    batch.put(b"La", value)
    db.write(batch)
    db.rewrite([(b"L", b"M")])


def handles(path: Path) -> int:
    """That this process has on a file, also where it was deleted."""
    count = 0
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            count += os.readlink(handle).removesuffix(" (deleted)") == str(path)
    return count


def one_file(folder: Path) -> Path:
    until(lambda: len(list(folder.glob("*.sst"))) == 1, "one file")
    return next(folder.glob("*.sst"))


def test_a_deleted_file_is_held_until_readers_have_let_go(db: Db, tmp_path: Path) -> None:
    folder = db.folder
    rewrite(db, b"old")
    file = one_file(folder)
    held = DeferredClose(folder)
    held.poll(0.0)
    reader = Secondary(str(tmp_path), files.generation(str(tmp_path)) or "")
    rewrite(db, b"new")
    until(lambda: not file.exists(), "another file in its place")
    held.poll(1.0)
    assert handles(file) == 2
    reader.catch_up()
    held.poll(1.0 + CLOSE_DELAY_S - 0.001)
    assert reader.get(b"La") == b"new"
    assert handles(file) == 1
    held.poll(1.0 + CLOSE_DELAY_S)
    assert handles(file) == 0
    held.close()
    reader.close()


def test_its_thread_opens_what_is_new_and_closes_all_at_the_end(db: Db) -> None:
    folder = db.folder
    with DeferredClose(folder):
        rewrite(db, b"value")
        file = one_file(folder)
        before = handles(file)
        until(lambda: handles(file) == before + 1, "a handle more")
    assert handles(file) == before


def test_without_a_look_into_the_folder_all_is_let_go(db: Db, caplog: pytest.LogCaptureFixture) -> None:
    folder = db.folder
    (log,) = folder.glob("*.log")
    before = handles(log)
    held = DeferredClose(folder)
    held.poll(0.0)
    assert handles(log) == before + 1
    held.folder = folder / "gone"
    held.poll(1.0)
    assert handles(log) == before
    assert "readers close deleted files themselves" in caplog.text
    held.folder = folder
    held.poll(2.0)
    assert handles(log) == before + 1
    held.close()
