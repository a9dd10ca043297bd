"""A folder by its address: a path, `file:///FOLDER`, or a URI such as `hdfs://HOST/FOLDER` or `s3a://BUCKET/FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from moneystate.job.local_path import is_local, local_folder
from moneystate.job.storage.local import LocalFolder


class Folder(Protocol):
    """Files by their names, which are paths below the folder, with `/` between their parts.

    Methods raise FileNotFoundError for a file that does not exist, other OSErrors for a local folder, and
    CheckpointError for a store that does not answer.
    """

    name: str  # as errors call it
    address: str  # as Spark takes it: with its scheme

    def exists(self, name: str = "") -> bool: ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None:
        """Writes or replaces a file: whole or not at all, and durable when this returns."""
        ...

    def remove(self, name: str) -> None: ...

    def names(self, name: str) -> list[str]:
        """Returns what is in a folder below this one, in any order; empty if there is no such folder."""
        ...

    def check_writable(self) -> None:
        """Raises CheckpointError; leaves nothing behind."""
        ...

    def driver_log(self, name: str) -> Path | None:
        """The file on this machine for what Spark's JVM prints: `name`, if the folder is on this machine. None: it is
        not kept."""
        ...


def folder_at(address: str, flag: str) -> Folder:
    """Does not access it. Raises ConfigError, which calls the address `flag`, if it is not one of a folder."""
    if is_local(address):
        return LocalFolder(local_folder(address, flag))
    # it imports PySpark, which takes longer than most commands that look at a local folder
    from moneystate.spark.storage.hadoop import HadoopFolder

    return HadoopFolder(address, flag)


def child(address: str, name: str) -> str:
    """The address of a folder in the one at `address`."""
    return str(Path(address) / name) if is_local(address) else f"{address.rstrip('/')}/{name}"
