"""A run of a job: what does not depend on where its batches run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moneystate.errors import MoneystateError
from moneystate.job.batch_loop import BatchLoop
from moneystate.job.batch_writing import Report
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.failures import as_one_line
from moneystate.job.health import JobHealth
from moneystate.job.metrics import JobMetrics
from moneystate.job.observer import Ending, JobObserver
from moneystate.job.preparation import Preparation
from moneystate.job.progress import BatchProgress
from moneystate.job.run_folder import RunFolder, new_run_folder
from moneystate.job.run_options import RunOptions
from moneystate.job.task_specs import TaskSpecs
from moneystate.ports.service import JobSpec

if TYPE_CHECKING:
    from moneystate.job.observer import OnTrigger


class BaseJob:
    """One run of a job, wherever its batches run. `stop` may be called from a signal handler."""

    def __init__(
        self,
        spec: JobSpec,
        options: RunOptions,
        on_batch: Callable[[BatchProgress], None],
        # called with the number of entries of the initial state that are in the changelog
        on_publish: Callable[[int], None] = lambda _: None,
        # called with the input topics that were missing and have been created
        on_new_inputs: Callable[[list[str]], None] = lambda _: None,
        # called with what a person should know
        on_warning: Callable[[str], None] = lambda _: None,
        # called once the query runs, with the last finished batch and the epoch
        on_start: Callable[[int, str], None] = lambda *_: None,
        own: RunFolder | None = None,  # of this run; None: a new one
    ) -> None:
        self.spec = spec
        self.options = options = options.named(spec)
        self.on_batch = on_batch
        self.on_warning = on_warning
        self.on_start = on_start
        self.checkpoint = Checkpoint(options.checkpoint)
        self.specs = TaskSpecs(spec, options, self.checkpoint)
        self.preparation = Preparation(self.specs, on_publish, on_new_inputs, on_warning)
        self.own = own or new_run_folder(spec, options)
        self.stop_file = self.own.path / "stop"
        self.stopped_file = self.own.path / "stop.seen"
        self.failure: MoneystateError | None = None
        self.loop: BatchLoop | None = None
        self.health = JobHealth(spec.name)
        self.health.on_waiting = on_warning
        self.metrics = JobMetrics(spec, self.health)
        self.observers: list[JobObserver] = []
        self.is_stopped = False
        self.on_trigger: list[OnTrigger] = []  # get Spark's durations, which cost calls to the JVM
        self.log = self.log_file()

    def log_file(self) -> Path | None:
        """Returns where Spark prints; None: nowhere, or to stderr."""
        return None

    def stop(self) -> None:
        """Finish the current batch and end."""
        self.is_stopped = True
        self.health.stopping()
        self.stop_file.touch()

    @property
    def last(self) -> Report:
        """The report of the last batch."""
        return Report() if self.loop is None else self.loop.last

    def keep_watermark(self) -> None:
        """Records the watermark at the end of the run, for replays: it may be ahead of what the logs say."""
        if self.loop is not None:
            self.loop.keep_watermark()

    def close(self) -> None:
        if self.loop is not None:
            self.loop.group.close()
        if self.preparation.watch is not None:
            self.preparation.watch.close()

    def prepare(self) -> None:
        """Check everything, then create what is missing."""
        for observer in self.observers:
            observer.starting()
        try:
            self.preparation.run()
        except Exception as e:
            self.failure = as_one_line(e)
            raise

    def tell_end(self, is_whole: bool) -> None:
        """`is_whole`: no job of the run has failed."""
        ending = Ending.completed if is_whole and not self.is_stopped else Ending.stopped
        if self.failure is not None:
            ending = Ending.failed
        for observer in self.observers:
            observer.ended(ending, self.failure)

    def check_alone(self) -> None:
        """Raises InstanceError."""
        assert self.preparation.watch is not None
        self.preparation.watch.check()
