"""A JVM that starts before its log may have a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from moneystate.spark import session
from moneystate.spark.jvm_process import JvmProcess, give_name, unnamed_log
from moneystate.spark.run_folder import RunFolder


def test_a_log_appears_with_all_that_was_written_once_it_gets_its_name(tmp_path: Path) -> None:
    log = tmp_path / "checkpoint" / "driver.log"
    file = unnamed_log(log)
    assert file is not None, "the file system of the tests has no files without a name"
    with file:
        os.write(file.fileno(), b"before, ")
        assert list(tmp_path.iterdir()) == []
        log.parent.mkdir()
        assert give_name(file, log)
        os.write(file.fileno(), b"after")
    assert log.read_bytes() == b"before, after"


def test_a_log_that_cannot_get_its_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "driver.log").touch()
    file = unnamed_log(tmp_path / "driver.log")
    assert file is not None
    with file:
        assert not give_name(file, tmp_path / "driver.log")


def test_the_session_has_the_jvm_that_was_begun_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """What `open_session` does to have a JVM, in a process that has one already: hence `monkeypatch`."""
    own, log = RunFolder([tmp_path / "local"], "job"), tmp_path / "driver.log"
    monkeypatch.setattr(SparkContext, "_gateway", None)
    session.begin_jvm("local[1]", 1, {}, log, own)
    begun = session._begun
    assert isinstance(begun, JvmProcess)
    assert not log.exists()
    gateway = session._launched(spark.sparkContext.getConf(), log, own)
    assert gateway.proc is begun.process
    assert gateway.jvm.java.lang.Math.abs(-1) == 1
    assert log.exists()
    assert not begun.folder.exists()
    gateway.shutdown()
    begun.end()
    own.remove()
