"""Runs the jobs that `moneystate run` has prepared, and shows them."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import typer

from moneystate.cli.display import Display
from moneystate.cli.job_kinds import Kind, kind_of
from moneystate.cli.plan import check_approved
from moneystate.cli.remembered import notes_of, telling
from moneystate.cli.service_jobs import Prepared
from moneystate.cli.watching import Watching
from moneystate.job.base_job import BaseJob
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.run_folder import RunFolder
from moneystate.job.run_options import RunOptions


def run_prepared(
    prepared: list[Prepared],
    watching: Watching,
    own: RunFolder | None,
    approved: Path | None,
    json_output: bool,
    quiet: bool,
) -> None:
    """`own`: of the first job; None: a new one. Raises MoneystateError."""
    if approved is not None:
        check_approved(approved, prepared)
    displays = [Display(quiet, one.spec.name, len(prepared) == 1, one.spec.counters) for one in prepared]
    folders = [own, *[None] * (len(prepared) - 1)]
    kind = kind_of(prepared[0].options)
    jobs = [_job(kind, *each) for each in zip(prepared, displays, folders, strict=True)]
    with watching.over(jobs):
        _run(kind, jobs, displays)
    _say(displays, jobs, prepared[0].options, json_output)


def _job(kind: Kind, prepared: Prepared, display: Display, own: RunFolder | None) -> BaseJob:
    job: BaseJob = kind.job(
        prepared.spec,
        prepared.options,
        display.batch,
        on_publish=display.publishing,
        on_new_inputs=display.new_inputs,
        on_warning=display.warning,
        on_start=telling(display.started, notes_of(*prepared)),
        own=own,
    )
    return job


def _run(kind: Kind, jobs: list[BaseJob], displays: list[Display]) -> None:
    def stop(*_: object) -> None:
        for job in jobs:
            job.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with ExitStack() as stack:
        for display in displays:
            stack.enter_context(display)
        kind.run(jobs)


def warn_of_open_lookups(display: Display, options: RunOptions) -> None:
    open_requests = Checkpoint(options.checkpoint).open_requests()
    if open_requests and not display.quiet:
        display.warning(
            f"{open_requests:,} lookups are open: what depends on them has not been put out. Run the same command "
            "again once they are answered."
        )


def _say(displays: list[Display], jobs: list[BaseJob], options: RunOptions, json_output: bool) -> None:
    for display, job in zip(displays, jobs, strict=True):
        warn_of_open_lookups(display, job.options)
        display.goodbye(options.bounded and not options.drain)
    if json_output:
        totals = {job.spec.name: display.totals() for job, display in zip(jobs, displays, strict=True)}
        typer.echo(json.dumps(totals if len(jobs) > 1 else totals[jobs[0].spec.name]))
