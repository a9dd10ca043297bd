"""The run folder: temporary files of a run, its JVM and their workers.

    <local dir>/moneystate-<digest of user and job>/run-*/     the run's process holds `lock` as long as it lives

The next run of the same job removes the folders of killed runs. Folders of live runs stay: the system releases a lock
when its process ends, however it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from moneystate.errors import SetupError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.run_options import RunOptions
from moneystate.ports.service import JobSpec

LOCK = "lock"
PREFIX = "run-"


def local_dirs(spark_config: Mapping[str, str]) -> list[Path]:
    """The folders where Spark is configured to keep its files, or the system's temporary folder."""
    told = os.environ.get("SPARK_LOCAL_DIRS") or spark_config.get("spark.local.dir") or tempfile.gettempdir()
    return [Path(folder).absolute() for folder in told.split(",")]


class RunFolder:
    """A run folder in each folder of `within`, until the process ends. `job` is the same for all runs of a job."""

    def __init__(self, within: list[Path], job: str) -> None:
        name = f"moneystate-{hashlib.sha256(f'{os.getuid()} {job}'.encode()).hexdigest()[:16]}"
        self.paths: list[Path] = []
        self.locks: list[IO[str]] = []
        atexit.register(self.remove)
        for folder in within:
            mine = _own(folder / name)
            _remove_left(mine)  # first, because leftover files may have filled the disk
            path, lock = _new(mine)
            self.paths.append(path)
            self.locks.append(lock)
        self.path = self.paths[0]

    def remove(self) -> None:
        for path in self.paths:
            shutil.rmtree(path, ignore_errors=True)
            _remove_empty(path.parent)
        for lock in self.locks:
            lock.close()
        self.paths, self.locks = [], []
        atexit.unregister(self.remove)


def _own(folder: Path) -> Path:
    """Raises SetupError if the folder cannot be made, or belongs to another user."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.lstat().st_uid
    except OSError as e:
        raise _refused(folder, e) from None
    if owner != os.getuid() or folder.is_symlink():
        raise SetupError(
            f"{folder}: expected a folder of this user, found one of another user.",
            "remove it, or name another place with --spark-config spark.local.dir=FOLDER.",
        )
    return folder


def _refused(folder: Path, e: OSError) -> SetupError:
    return SetupError(
        f"{folder}: expected to make a folder with a lock for temporary files, but {e.strerror}.",
        "make room there, or name another place with --spark-config spark.local.dir=FOLDER.",
    )


def _new(job: Path) -> tuple[Path, IO[str]]:
    """A new folder with its lock. Until it is locked, another start may remove it as a killed run's; then this tries
    again."""
    while True:
        job.mkdir(mode=0o700, exist_ok=True)
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=job))
            lock = (path / LOCK).open("w")
            if _locked(lock) and (path / LOCK).exists():
                return path, lock
        except FileNotFoundError:
            continue
        except OSError as e:
            raise _refused(job, e) from None
        lock.close()


def _locked(lock: IO[str]) -> bool:
    """Raises OSError if the file system has no locks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_left(job: Path) -> None:
    for left in job.glob(f"{PREFIX}*"):
        # another run may be removing the same folder
        with contextlib.suppress(OSError), (left / LOCK).open("a") as lock:
            if _locked(lock):
                shutil.rmtree(left, ignore_errors=True)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return


def new_run_folder(spec: JobSpec, options: RunOptions) -> RunFolder:
    """Creates the folder for a run of this job."""
    o = options.named(spec)
    return RunFolder(local_dirs(o.spark_config), f"{Checkpoint(o.checkpoint).root} {o.application()}")
