"""Runs the queries of one Spark application until all have ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql.streaming.query import StreamingQuery

from moneystate.errors import InstanceError, MoneystateError
from moneystate.job.failures import as_one_line
from moneystate.job.health import JobHealth

POLL_S = 0.2


class Stoppable(Protocol):
    """A job that `moneystate.spark.running` waits for."""

    stop_file: Path
    stopped_file: Path
    failure: MoneystateError | None
    health: JobHealth
    log: Path | None  # where Spark prints

    def stop(self) -> None: ...

    def check_alone(self) -> None:
        """Raises InstanceError if another instance has taken over."""
        ...


class Running:
    """The query of a job."""

    def __init__(self, job: Stoppable, query: StreamingQuery) -> None:
        self.job = job
        self.query = query

    def wait(self, seconds: float) -> bool:
        """Whether it has ended: by itself, or because it was told to stop and runs no batch. Raises the query's
        error."""
        if self.query.awaitTermination(seconds):  # type: ignore[arg-type]  # it accepts fractions of a second, too
            return True
        try:
            self.job.check_alone()
        except InstanceError as e:
            self.job.failure = e  # errors of the interrupted batch do not count
            self.query.stop()
            raise
        # Either the planner has seen the stop file, or the query waits for its next trigger. Then the planner will see
        # the stop file when it is asked for that batch.
        if self.job.stopped_file.exists() or (self.job.stop_file.exists() and _waits(self.query)):
            self.query.stop()
            return True
        return False


def await_all(running: Sequence[Running]) -> None:
    """Waits for all queries. If one fails, the others finish their current batch and end. Raises the first failure."""
    left, failure = list(running), None
    while left:
        for one in list(left):
            try:
                one.job.health.beat()
                if one.wait(POLL_S / len(left)):
                    left.remove(one)
                    one.job.health.ended()
            except Exception as e:
                left.remove(one)
                one.job.failure = one.job.failure or as_one_line(e, one.job.log)
                failure = failure or one.job.failure
                for other in left:
                    other.job.stop()
    if failure is not None:
        raise failure


def _waits(query: StreamingQuery) -> bool:
    status = query.status
    return not status["isTriggerActive"] and status["message"] == "Waiting for next trigger"
