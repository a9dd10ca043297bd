"""A JVM and a session that start before their log may have a name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from moneystate.errors import SetupError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.run_options import RunOptions
from moneystate.spark import jvm_start, session
from moneystate.spark.jvm_process import JvmProcess, give_name, unnamed_log
from tests.engine.tiny_service import tiny_job


def test_a_log_appears_with_all_that_was_written_once_it_gets_its_name(tmp_path: Path) -> None:
    log = tmp_path / "checkpoint" / "driver.log"
    file = unnamed_log(log)
    assert file is not None, "the file system of the tests has no files without a name"
    with file:
        os.write(file.fileno(), b"before, ")
        assert list(tmp_path.iterdir()) == []
        log.parent.mkdir()
        give_name(file, log)
        os.write(file.fileno(), b"after")
    assert log.read_bytes() == b"before, after"


def test_a_log_that_cannot_get_its_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "driver.log").touch()
    file = unnamed_log(tmp_path / "driver.log")
    assert file is not None
    with file, pytest.raises(SetupError, match=r"driver\.log"):
        give_name(file, tmp_path / "driver.log")


def test_the_session_has_the_jvm_that_was_begun_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """What `open_session` does to have a JVM, in a process that has one already: hence `monkeypatch`."""
    options = RunOptions("h:1", str(tmp_path), master="local[1]", spark_config={"spark.local.dir": f"{tmp_path}/local"})
    monkeypatch.setattr(SparkContext, "_gateway", None)
    own = jvm_start.begin_run(tiny_job(), options)
    begun, log = jvm_start._begun, Checkpoint(options.checkpoint).driver_log()
    assert log is not None
    assert isinstance(begun, JvmProcess)
    assert not log.exists()
    gateway = session._launched({}, log, own)
    assert gateway.proc is begun.process
    assert gateway.jvm.java.lang.Math.abs(-1) == 1
    assert log.exists()
    assert not begun.folder.exists()
    gateway.shutdown()
    begun.end()
    own.remove()


BEGUN_ONLY = """
import sys
from moneystate.spark import jvm_start
from moneystate.job.run_options import RunOptions
from tests.engine.tiny_service import tiny_job

settings = {"spark.local.dir": sys.argv[2]}
own = jvm_start.begin_run(tiny_job(), RunOptions("h:1", sys.argv[1], master="local[1]", spark_config=settings))
from moneystate.spark import session

session.begin_session("job", "local[1]", 1, settings, own)
session._opening.thread.join()
print(session._opening.session, own.path.exists())
"""


def test_a_session_that_nobody_takes_leaves_nothing_behind(tmp_path: Path) -> None:
    """In a process of its own, which has no session yet."""
    command = [sys.executable, "-c", BEGUN_ONLY, str(tmp_path / "checkpoint"), str(tmp_path / "local")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<pyspark.sql.session.SparkSession object"), done.stdout
    assert done.stdout.endswith("True\n")
    assert done.stderr == ""
    assert list((tmp_path / "local").iterdir()) == []
    assert not (tmp_path / "checkpoint").exists()
