"""A job's folders for what a run leaves behind: removed by the next run, never under one that lives."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moneystate.errors import SetupError
from moneystate.job.run_folder import RunFolder, local_dirs
from tests.waiting import until

WITHIN_S = 90.0
RUN = """
import sys, pathlib
from moneystate.job.run_folder import RunFolder
run = RunFolder([pathlib.Path(folder) for folder in sys.argv[2:]], sys.argv[1])
for path in run.paths:
    (path / "left").mkdir()
    (path / "left" / "file").write_text("x")
print(run.path, flush=True)
sys.stdin.read()
"""


@contextmanager
def running(job: str, *folders: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a run folder, which ends when its stdin does; and that folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, job, *map(str, folders)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_what_a_killed_run_left_goes_and_what_a_live_one_uses_stays(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    stranger = tmp_path / "one" / "run-of-somebody"
    stranger.mkdir(parents=True)
    with running("job", one, two) as (killed, left), running("job", one, two) as (_, live), running("x", one) as other:
        killed.kill()
        killed.wait()
        assert (left / "left" / "file").exists()
        run = RunFolder([one, two], "job")
        assert not left.exists()
        assert len(list(two.glob("*/run-*"))) == 2  # the live one's, and this one's
        assert (live / "left" / "file").exists()
        assert (other[1] / "left" / "file").exists()
        run.remove()
        assert not run.paths
    assert stranger.exists()


def test_an_orderly_end_leaves_nothing(tmp_path: Path) -> None:
    with running("job", tmp_path) as (process, path):
        assert path.exists()
        process.communicate("")
    until(lambda: not list(tmp_path.iterdir()), lambda: str(list(tmp_path.rglob("*"))), WITHIN_S)


def test_a_folder_that_is_not_ours_to_use_is_refused(tmp_path: Path) -> None:
    with running("job", tmp_path) as (_, path):
        folder = path.parent
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    with pytest.raises(SetupError):
        RunFolder([tmp_path], "job")
    (tmp_path / "file").touch()
    with pytest.raises(SetupError):
        RunFolder([tmp_path / "file"], "job")


def test_what_a_killed_run_left_goes_also_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with running("job", tmp_path) as (killed, left):
        killed.kill()
        killed.wait()

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(SetupError, match="No space left"):
        RunFolder([tmp_path], "job")
    assert not left.exists()


def test_a_place_without_locks_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tries = 0

    def no_locks(*_: object) -> None:
        nonlocal tries
        tries += 1
        assert tries < 3  # not for ever
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(SetupError, match="No locks available"):
        RunFolder([tmp_path], "job")


def test_the_place_is_where_spark_is_told_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert local_dirs({"spark.local.dir": "/a,/b"}) == [Path("/a"), Path("/b")]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    assert local_dirs({"spark.local.dir": "/a"}) == [tmp_path]
