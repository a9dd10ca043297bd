"""The store of secrets, on real files, for both of its forms."""

from __future__ import annotations

import base64
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from moneystate.deliver.secrets import LOOK_S, InvalidSecret, Store, UnknownSecret, open_store
from moneystate.errors import ConfigError, SetupError

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(32)).decode()


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(params=["folder", "sealed"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Clock], Store]:
    """Opens the same store once more."""
    folder, key = tmp_path / "secrets", tmp_path / "key"
    folder.mkdir()
    key.write_text(KEY + "\n")

    def opened(clock: Clock) -> Store:
        if request.param == "folder":
            return open_store(str(folder), clock=clock)
        return open_store(str(tmp_path / "secrets.bin"), str(key), clock)

    return opened


def test_a_value_is_that_of_its_owner_alone(opened: Callable[[Clock], Store]) -> None:
    store = opened(Clock())
    store.put("acme", "main", "one")
    store.put("../acme", "main", "two")
    again = opened(Clock())
    assert (again.value("acme", "main"), again.value("../acme", "main")) == ("one", "two")
    assert again.names("acme") == ["main"]
    for owner in ("globex", "", ".", "..", "acme/"):
        assert again.names(owner) == []
        with pytest.raises(UnknownSecret):
            again.value(owner, "main")


@pytest.mark.parametrize("name", ["../main", "a/b", ".hidden", "", "x" * 101])
def test_a_name_is_no_path(opened: Callable[[Clock], Store], name: str) -> None:
    store = opened(Clock())
    with pytest.raises(InvalidSecret):
        store.put("acme", name, "one")
    with pytest.raises(UnknownSecret):
        store.value("acme", name)
    assert not store.delete("acme", name)


@pytest.mark.parametrize("value", ["", "line\nend", "ü", "x" * 4_097])
def test_a_value_that_no_header_takes_is_refused_and_not_repeated(opened: Callable[[Clock], Store], value: str) -> None:
    with pytest.raises(InvalidSecret) as refused:
        opened(Clock()).put("acme", "main", value)
    assert not value or value not in str(refused.value)


def test_a_reader_sees_a_change_once_it_looks_again(opened: Callable[[Clock], Store]) -> None:
    writer, clock = opened(Clock()), Clock()
    writer.put("acme", "main", "one")
    reader = opened(clock)
    assert reader.value("acme", "main") == "one"
    writer.put("acme", "main", "two")
    assert writer.value("acme", "main") == "two"
    clock.now_s = LOOK_S
    assert reader.value("acme", "main") == "two"
    assert writer.delete("acme", "main")
    assert not writer.delete("acme", "main")
    clock.now_s = 2 * LOOK_S
    with pytest.raises(UnknownSecret):
        reader.value("acme", "main")


def test_writers_lose_no_value_of_each_other(opened: Callable[[Clock], Store]) -> None:
    def write(number: int) -> None:
        store = opened(Clock())
        for n in range(10):
            store.put("acme", f"s{number}-{n}", "value")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened(Clock()).names("acme")) == 40


def test_files_are_private_and_a_mounted_file_may_end_with_a_line_end(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.put("acme", "main", "one")
    file = tmp_path / "acme" / "main"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    (tmp_path / "acme" / "mounted").write_text("token\n")
    assert store.value("acme", "mounted") == "token"


def test_an_encrypted_file_shows_nothing_and_takes_no_other_key_nor_change(tmp_path: Path) -> None:
    path, key, other = tmp_path / "secrets.bin", tmp_path / "key", tmp_path / "other"
    key.write_text(KEY)
    other.write_text(OTHER_KEY)
    open_store(str(path), str(key)).put("acme", "main", "very-secret")
    sealed = path.read_bytes()
    assert b"acme" not in sealed
    assert b"very-secret" not in sealed
    with pytest.raises(ConfigError, match="another one"):
        open_store(str(path), str(other))
    for place in (0, 25, len(sealed) - 1):
        path.write_bytes(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
        with pytest.raises(ConfigError, match="another one"):
            open_store(str(path), str(key))
    path.write_bytes(sealed)
    open_store(str(path), str(key)).put("acme", "main", "very-secret")
    assert path.read_bytes()[21:33] != sealed[21:33]  # another nonce


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("c2hvcnQ=")
    with pytest.raises(ConfigError, match="32 bytes"):
        open_store(str(tmp_path / "s"), str(tmp_path / "short"))
    with pytest.raises(ConfigError, match="--secrets-key"):
        open_store(str(tmp_path / "s"), str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="expected a folder"):
        open_store(str(tmp_path / "absent"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SetupError, match="permission"):
        open_store(str(tmp_path)).put("acme", "main", "one")
