"""Runs the jobs that `moneystate run` has prepared, and shows them."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import typer

from moneystate.cli.display import Display
from moneystate.cli.plan import check_approved
from moneystate.cli.remembered import notes_of, telling
from moneystate.cli.service_jobs import Prepared
from moneystate.cli.watching import Watching
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.job import Job, run_together
from moneystate.spark.run_folder import RunFolder
from moneystate.spark.run_options import RunOptions


def run_prepared(
    prepared: list[Prepared], watching: Watching, own: RunFolder, approved: Path | None, json_output: bool, quiet: bool
) -> None:
    """`own`: of the first job. Raises MoneystateError."""
    if approved is not None:
        check_approved(approved, prepared)
    displays = [Display(quiet, one.spec.name, len(prepared) == 1, one.spec.counters) for one in prepared]
    folders = [own, *[None] * (len(prepared) - 1)]
    jobs = [_job(*each) for each in zip(prepared, displays, folders, strict=True)]
    with watching.over(jobs):
        _run(jobs, displays)
    _say(displays, jobs, prepared[0].options, json_output)


def _job(prepared: Prepared, display: Display, own: RunFolder | None) -> Job:
    return Job(
        prepared.spec,
        prepared.options,
        display.batch,
        on_publish=display.publishing,
        on_new_inputs=display.new_inputs,
        on_warning=display.warning,
        on_start=telling(display.started, notes_of(*prepared)),
        own=own,
    )


def _run(jobs: list[Job], displays: list[Display]) -> None:
    def stop(*_: object) -> None:
        for job in jobs:
            job.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with ExitStack() as stack:
        for display in displays:
            stack.enter_context(display)
        run_together(jobs)


def warn_of_open_lookups(display: Display, options: RunOptions) -> None:
    open_requests = Checkpoint(options.checkpoint).open_requests()
    if open_requests and not display.quiet:
        display.warning(
            f"{open_requests:,} lookups are open: what depends on them has not been put out. Run the same command "
            "again once they are answered."
        )


def _say(displays: list[Display], jobs: list[Job], options: RunOptions, json_output: bool) -> None:
    for display, job in zip(displays, jobs, strict=True):
        warn_of_open_lookups(display, job.options)
        display.goodbye(options.bounded and not options.drain)
    if json_output:
        totals = {job.spec.name: display.totals() for job, display in zip(jobs, displays, strict=True)}
        typer.echo(json.dumps(totals if len(jobs) > 1 else totals[jobs[0].spec.name]))
