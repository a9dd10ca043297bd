"""Opens the state of a stopped job, from a savepoint or a checkpoint."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from moneystate.errors import CheckpointError, MoneystateError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.failures import as_one_line
from moneystate.job.local.store import store_of
from moneystate.job.storage import savepoints
from moneystate.ports.state import StateModel
from moneystate.savepoint.format import Savepoint
from moneystate.spark.session import open_session
from state_tools.export import check_can_go_on, export, open_checkpoint

PLACE = "the state"  # what errors call the folder


def is_savepoint(folder: str) -> bool:
    return savepoints.is_savepoint(folder, PLACE)


def job_of(folder: str) -> str:
    """The name of the job that a savepoint or checkpoint belongs to. Raises SavepointError, CheckpointError."""
    name: str = (
        savepoints.manifest_of(folder, PLACE).job if is_savepoint(folder) else open_checkpoint(folder).settings()["job"]
    )
    return name


def rules_of(folder: str) -> Mapping[str, Any]:
    """The latest rules in a savepoint or checkpoint."""
    return (
        savepoints.manifest_of(folder, PLACE).rules if is_savepoint(folder) else open_checkpoint(folder).latest_rules()
    )


@contextmanager
def open_state(state: StateModel, folder: str, can_go_on: bool = False) -> Iterator[Savepoint]:
    """The savepoint in `folder`. If it is a checkpoint, a temporary savepoint is made from it.

    `can_go_on`: raises CheckpointError if a job must not be started from the checkpoint.
    """
    if is_savepoint(folder):
        yield Savepoint(savepoints.fetched(folder, PLACE))
        return
    checkpoint = open_checkpoint(folder)
    if can_go_on:
        check_can_go_on(checkpoint)
    scratch = Path(tempfile.mkdtemp(prefix="moneystate-"))
    try:
        with session_for(checkpoint) as session:
            export(session, state, checkpoint, scratch / "savepoint")
        yield Savepoint(scratch / "savepoint")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def session_for(
    checkpoint: Checkpoint, master: str | None = None, spark_config: dict[str, str] | None = None
) -> Iterator[SparkSession | None]:
    """A session to export the checkpoint with. None: it is that of a local run, and no `master` is given."""
    if master is None and store_of(checkpoint.folder.address) is not None:
        yield None
        return
    with offline_session(master, spark_config) as session:
        yield session


@contextmanager
def offline_session(master: str | None = None, spark_config: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """A Spark session. Its errors become a CheckpointError of one line."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    scratch = Path(tempfile.mkdtemp(prefix="moneystate-"))
    session = open_session("moneystate-state", master, 4, spark_config or {}, scratch / "spark.log")
    try:
        yield session
    except MoneystateError:
        raise
    except Exception as e:
        raise CheckpointError(
            f"the checkpoint: expected to read the state, but {as_one_line(e)}",
            "check that no job uses the checkpoint.",
        ) from e
    finally:
        session.stop()
        shutil.rmtree(scratch, ignore_errors=True)
