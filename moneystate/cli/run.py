"""`moneystate run`: runs plain services as jobs, from Kafka to Kafka."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from moneystate import log
from moneystate.cli.display import Display
from moneystate.cli.option import PATH, Panel, flagged, option
from moneystate.cli.options import Json, Quiet
from moneystate.cli.plan import check_approved
from moneystate.cli.remembered import notes_of, telling
from moneystate.cli.service_jobs import Prepared, prepare
from moneystate.cli.watching import Watching, watching_options
from moneystate.spark.job import Job, run_together
from moneystate.spark.run_options import RunOptions


def run_services(
    prepared: list[Prepared],
    watching: Watching,
    approved: Annotated[
        Path | None,
        option(
            "approved",
            "File of `moneystate plan --save`: refuse to start if anything else would change.",
            Panel.run,
            PATH,
        ),
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run plain services from Kafka to Kafka, exactly once.

    Records are processed in event-time order. A rule of a service is a flag: wait_ms is --wait 30m. Several services
    run in one Spark application, with a folder of --checkpoint for each. The command ends with code 0 after
    --until-caught-up or SIGTERM, once the current batch is finished.
    """
    if approved is not None:
        check_approved(approved, prepared)
    log.add_fields(service=", ".join(one.spec.name for one in prepared))
    displays = [Display(quiet, one.spec.name, len(prepared) == 1, one.spec.counters) for one in prepared]
    jobs = [_job(one, display) for one, display in zip(prepared, displays, strict=True)]
    with watching.over(jobs):
        _run(jobs, displays)
    _say(displays, jobs, prepared[0].options, json_output)


run = flagged(flagged(run_services, "prepared", prepare), "watching", watching_options)


def _job(prepared: Prepared, display: Display) -> Job:
    return Job(
        prepared.spec,
        prepared.options,
        display.batch,
        on_publish=display.publishing,
        on_new_inputs=display.new_inputs,
        on_warning=display.warning,
        on_start=telling(display.started, notes_of(*prepared)),
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


def _say(displays: list[Display], jobs: list[Job], options: RunOptions, json_output: bool) -> None:
    for display in displays:
        display.goodbye(options.bounded and not options.drain)
    if json_output:
        totals = {job.spec.name: display.totals() for job, display in zip(jobs, displays, strict=True)}
        typer.echo(json.dumps(totals if len(jobs) > 1 else totals[jobs[0].spec.name]))
