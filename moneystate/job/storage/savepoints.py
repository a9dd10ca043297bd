"""Savepoints by their addresses. Programs read and write them on this machine; those of a store are copied.

In a store a savepoint is complete once its manifest is there, which is written last. So no rename is needed.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from moneystate.errors import MoneystateError, SavepointError
from moneystate.job.local_path import is_local, local_folder
from moneystate.job.storage.folder import folder_at
from moneystate.savepoint.format import check_free
from moneystate.savepoint.manifest import NAME, Manifest, decode_manifest, no_manifest


def is_savepoint(address: str, flag: str) -> bool:
    return folder_at(address, flag).exists(NAME)


def manifest_of(address: str, flag: str) -> Manifest:
    """Raises SavepointError, ConfigError."""
    folder = folder_at(address, flag)
    name = f"{folder.name}/{NAME}"
    try:
        text = folder.read(NAME).decode()
    except (OSError, ValueError) as e:
        raise no_manifest(name, e) from None
    return decode_manifest(text, name)


def fetched(address: str, flag: str) -> Path:
    """The savepoint's folder on this machine, or a copy of it, which is there until the process ends."""
    return local_folder(address, flag) if is_local(address) else _copied(address, flag)


@lru_cache(maxsize=4)
def _copied(address: str, flag: str) -> Path:
    from moneystate.spark.storage.hadoop import HadoopFolder

    manifest_of(address, flag)  # its errors are better than those of a copy
    scratch = Path(tempfile.mkdtemp(prefix="moneystate-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    HadoopFolder(address, flag).download(scratch / "savepoint")
    return scratch / "savepoint"


def check_out(out: str) -> None:
    """Raises SavepointError if `out` cannot become a new savepoint. Writes nothing."""
    if is_local(out):
        check_free(local_folder(out, "--out"))
        return
    folder = folder_at(out, "--out")
    names = folder.names("")
    if NAME in names:
        raise SavepointError(f"{out}: expected no folder of this name, found a savepoint.", "give another --out.")
    if names:
        raise SavepointError(
            f"{out}: expected no folder of this name, found files without {NAME}: an upload that did not come to its "
            "end, or something else.",
            "delete it if it is an upload, or give another --out.",
        )


@contextmanager
def new_savepoint(out: str, beside: Path | None = None) -> Iterator[Path]:
    """The path where a savepoint is to be written, which is then copied to `out` if that is in a store.

    `beside`: the copy on this machine is made beside this path; None: in the folder for temporary files.
    """
    check_out(out)
    if is_local(out):
        yield local_folder(out, "--out")
        return
    scratch = Path(tempfile.mkdtemp(prefix="moneystate-", dir=None if beside is None else beside.absolute().parent))
    path = scratch / "savepoint"
    try:
        yield path
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    try:
        upload(path, out)
    except MoneystateError as e:
        raise SavepointError(f"{e} The savepoint is complete on this machine: {path}.", f"copy it to {out}.") from None
    shutil.rmtree(scratch, ignore_errors=True)


def upload(savepoint: Path, out: str) -> None:
    """Copies a complete savepoint into a store, its manifest last."""
    from moneystate.spark.storage.hadoop import HadoopFolder

    target = HadoopFolder(out, "--out")
    for path in sorted(savepoint.rglob("*")):
        if path.is_file() and path.name != NAME:
            target.upload(str(path.relative_to(savepoint)), path)
    target.write(NAME, (savepoint / NAME).read_bytes())
