"""What each folder of `moneystate.spark.storage` does.

`python -m tests.storage.contract ADDRESS SETTING=VALUE...` tries one in a process of its own: a JVM that runs already
does not get the jars of a store.
"""

from __future__ import annotations

import sys

import pytest

from moneystate.job.storage import jvm_settings
from moneystate.job.storage.folder import Folder, folder_at


def check_last_write_is_read(folder: Folder) -> None:
    folder.write("a/b", b"one")
    folder.write("a/b", bytes(range(256)))
    folder.write("a/empty", b"")
    assert folder.read("a/b") == bytes(range(256))
    assert folder.read("a/empty") == b""
    assert sorted(folder.names("a")) == ["b", "empty"]  # nothing temporary is left
    assert folder.names("") == ["a"]


def check_missing(folder: Folder) -> None:
    assert not folder.exists()
    assert not folder.exists("a")
    assert folder.names("a") == []
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    folder.write("a", b"")
    assert folder.exists()
    assert folder.exists("a")


def main(address: str, *settings: str) -> None:
    jvm_settings.configure(dict(setting.split("=", 1) for setting in settings))
    check_last_write_is_read(folder_at(f"{address}/written", "--checkpoint"))
    check_missing(folder_at(f"{address}/missing", "--checkpoint"))


if __name__ == "__main__":
    main(*sys.argv[1:])
