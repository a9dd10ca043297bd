"""Runs a bootstrap's functions, one call for each argument: as Spark tasks, or in this process."""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from moneystate.errors import MoneystateError
from moneystate.job.failures import as_one_line
from moneystate.spark.jvm_start import under_spark_submit
from moneystate.spark.session import open_session

POLL_S = 0.2


class Tasks(Protocol):
    @property
    def cores(self) -> int: ...

    def run(self, function: Callable[[Any], Any], arguments: list[Any], on_poll: Callable[[], None]) -> list[Any]:
        """The results of `function` for each argument. Calls `on_poll` repeatedly meanwhile."""
        ...


class InProcess:
    """Runs the functions one after the other in this process."""

    cores = 1

    def run(self, function: Callable[[Any], Any], arguments: list[Any], on_poll: Callable[[], None]) -> list[Any]:
        results = []
        for argument in arguments:
            on_poll()
            results.append(function(argument))
        return results


class SparkTasks:
    def __init__(self, session: SparkSession) -> None:
        self.context = session.sparkContext

    @property
    def cores(self) -> int:
        return max(1, self.context.defaultParallelism)

    def run(self, function: Callable[[Any], Any], arguments: list[Any], on_poll: Callable[[], None]) -> list[Any]:
        results: list[Any] = []
        failures: list[BaseException] = []

        def work() -> None:
            try:
                spread = self.context.parallelize(arguments, max(1, len(arguments)))
                results.extend(spread.map(function).collect())
            except BaseException as e:
                failures.append(e)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                on_poll()
                thread.join(POLL_S)
        except BaseException:
            self.context.cancelAllJobs()
            raise
        if failures:
            raise failures[0]
        return results


@contextlib.contextmanager
def own_session(
    name: str, master: str | None, partitions: int, spark_config: dict[str, str], work: Path
) -> Iterator[SparkSession]:
    """A Spark session for the duration of the context. Its errors become one line. Its log is in the work folder, if
    that exists by then."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    scratch = Path(tempfile.mkdtemp(prefix="moneystate-"))
    log = None if under_spark_submit() else scratch / "driver.log"
    try:
        session = open_session(name, master, partitions, spark_config, log)
        try:
            yield session
        except MoneystateError:
            raise
        except Exception as e:
            kept_log = work / "driver.log"
            if log is not None and work.is_dir():
                shutil.copy(log, kept_log)
            raise as_one_line(e, kept_log if kept_log.exists() else None) from e
        finally:
            with contextlib.suppress(Exception):  # from a dead JVM: it must not hide the first error
                session.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
