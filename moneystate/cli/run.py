"""`moneystate run`: plain services as jobs, from Kafka to Kafka."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from moneystate.api.job import DEAD_LETTER, FAIL, plain_service, service_at
from moneystate.cli import services
from moneystate.cli.display import Display
from moneystate.cli.durations import parse_ms
from moneystate.cli.job_flags import job_options, planned_job
from moneystate.cli.options import MAX_RECORD_BYTES, MAX_RECORD_HELP, MIN_RECORD_BYTES, Format, flag, flagged, formats
from moneystate.cli.rule_flags import parted, rules_by_service
from moneystate.errors import ConfigError
from moneystate.kafka.starting import parse_start
from moneystate.savepoint.manifest import read_manifest
from moneystate.schemas.services import check_released
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.job import Job, RunOptions, run_together

RULES_TAKE = {"ignore_unknown_options": True}  # flags of rules are among the words


class OnError(StrEnum):
    fail = FAIL
    dead_letter = DEAD_LETTER


def run_services(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE:SERVICE...", help="Services, each by its module, or the module's file, and its name."
        ),
    ],
    options: RunOptions,
    bound: Annotated[str, flag("BOUND", "Out-of-orderness bound of all inputs.")] = "20s",
    max_future: Annotated[
        str, flag("MAX_FUTURE", "A record further ahead of its Kafka timestamp is a dead letter.")
    ] = "10m",
    max_record_bytes: Annotated[
        int, typer.Option(min=MIN_RECORD_BYTES, help=MAX_RECORD_HELP, envvar="MONEYSTATE_MAX_RECORD_BYTES")
    ] = MAX_RECORD_BYTES,
    on_error: Annotated[
        OnError, flag("ON_ERROR", "What an exception in a step does: end the job, or make a dead letter.")
    ] = OnError.fail,
    format: Format = None,
    json_output: Annotated[bool, typer.Option("--json", help="At the end print the run in numbers, as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Run services, each exactly once from its topics to its topics, in event-time order.

    A rule of a service is a flag: wait_ms is --wait 30m. Several services run in one Spark application, with a folder
    of --checkpoint for each. Ends with code 0 after --until-caught-up or SIGTERM, once the batch in hand is finished.
    """
    given = parted(words)
    paths = [services.load(text) for text in given.services]
    _check_several(paths, options)
    rules = rules_by_service([service_at(path) for path in paths], given.rules)
    ours = {
        "bound_ms": parse_ms(bound, "--bound"),
        "max_future_ms": parse_ms(max_future, "--max-future"),
        "max_record_bytes": max_record_bytes,
        "on_error": on_error.value,
    }
    known = [topic for path in paths for topic in plain_service(path).formatted]
    chosen = formats(format or [], options.registry_url or "", known)
    displays, jobs = [], []
    for path, own in zip(paths, rules, strict=True):
        display = Display(quiet, plain_service(path).name if len(paths) > 1 else "")
        jobs.append(_job(path, {**own, **ours}, _own(options, path, len(paths) > 1), chosen, display))
        displays.append(display)
    _run(jobs, displays)
    _say(displays, jobs, options, json_output)


run = flagged(run_services, "options", job_options)


def _check_several(paths: list[str], options: RunOptions) -> None:
    names = [service_at(path).name for path in paths]
    if not names:
        raise ConfigError("run: expected a service, found none.", "give MODULE:SERVICE.")
    if len(set(names)) < len(names):
        raise ConfigError(f"run: expected services of different names, found {', '.join(names)}.")
    if len(names) > 1 and (options.application_id or options.initial_state or options.finish_batch):
        raise ConfigError(
            "--application-id, --initial-state and --finish-batch: expected one service.", "run each by itself."
        )


def _own(options: RunOptions, path: str, several: bool) -> RunOptions:
    if not several:
        return options
    return replace(options, checkpoint=str(Path(options.checkpoint) / service_at(path).name))


def _job(path: str, rules: Mapping[str, Any], options: RunOptions, chosen: Mapping[str, str], display: Display) -> Job:
    check_released(path)
    service = plain_service(path)
    spec = (
        planned_job(service, options.checkpoint) if options.finish_batch else service.job({**rules, **_topics(options)})
    )
    parse_start(options.starting_offsets, [t.name for t in spec.inputs])  # before a broker is asked
    mine = {**service.formats, **{topic: name for topic, name in chosen.items() if topic in service.formatted}}
    missing = [topic for topic, name in mine.items() if name == "confluent" and not options.registry_url]
    if missing:
        raise ConfigError(f"{missing[0]}: expected a schema registry.", "add --schema-registry URL.")
    return Job(
        spec,
        replace(options, formats=mine),
        display.batch,
        on_publish=display.publishing,
        on_new_inputs=display.new_inputs,
    )


def _topics(options: RunOptions) -> dict[str, Any]:
    """What stands for topics in the state that the job begins with: kept, so that inputs can be added."""
    checkpoint = Checkpoint(options.checkpoint)
    before: Mapping[str, Any] = {}
    if not checkpoint.is_new():
        before = checkpoint.latest_rules()
    elif options.initial_state:
        before = read_manifest(Path(options.initial_state)).rules
    return {"topics": before["topics"]} if "topics" in before else {}


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
