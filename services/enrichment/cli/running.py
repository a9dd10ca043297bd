"""Runs the job that `moneystate enrich` has prepared, and shows it."""

from __future__ import annotations

import json
import signal

import typer

from moneystate.cli.display import Display
from moneystate.cli.job_kinds import kind_of
from moneystate.cli.remembered import notes_of, telling
from moneystate.cli.running import warn_of_open_lookups
from moneystate.cli.service_jobs import Prepared
from moneystate.cli.watching import Watching
from moneystate.job.run_folder import RunFolder


def run_prepared(prepared: Prepared, watching: Watching, own: RunFolder | None, json_output: bool, quiet: bool) -> None:
    """Raises MoneystateError."""
    spec, options, _ = prepared
    with Display(quiet, spec.name, counters=spec.counters) as display:
        kind = kind_of(options)
        job = kind.job(
            spec,
            options,
            display.batch,
            on_publish=display.publishing,
            on_new_inputs=display.new_inputs,
            on_warning=display.warning,
            on_start=telling(display.started, notes_of(*prepared)),
            own=own,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: job.stop())
        with watching.over([job]):
            kind.run([job])
    warn_of_open_lookups(display, options)
    display.goodbye(options.bounded and not options.drain)
    if json_output:
        typer.echo(json.dumps(display.totals()))
