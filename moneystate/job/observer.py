"""What happens to a job, for those who tell others about it. No result depends on an observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from moneystate.errors import MoneystateError
from moneystate.job.progress import BatchProgress


class Ending(StrEnum):
    completed = "completed"  # it has read everything
    failed = "failed"
    stopped = "stopped"  # by a signal, or because another job of the run failed


class Trigger(NamedTuple):
    """Spark's durations of a batch."""

    batch: int
    begun_ns: int  # since the epoch
    durations_ms: Mapping[str, int]


OnTrigger = Callable[[Trigger], None]


class FailedBatch(NamedTuple):
    batch: int
    epoch: str
    begun_ns: int
    ended_ns: int
    failure: MoneystateError


class JobObserver:
    """Its methods return at once and raise nothing. These do nothing."""

    def starting(self) -> None:
        """Runs before the checks."""

    def batch(self, progress: BatchProgress) -> None: ...

    def batch_failed(self, failed: FailedBatch) -> None: ...

    def ended(self, ending: Ending, failure: MoneystateError | None) -> None: ...
