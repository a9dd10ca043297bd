"""`moneystate doctor`: what is wrong, or will be, with a job's brokers, topics, folders and versions. Exit codes: 0 no
errors, 1 errors were found.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.text import Text

from moneystate.cli import registry
from moneystate.cli.findings_view import end_with_errors, show_findings
from moneystate.cli.flag_groups import RuleFlags, SessionFlags
from moneystate.cli.job_flags import job_options
from moneystate.cli.option import flagged
from moneystate.cli.options import Format, Json, ReplicaFolder
from moneystate.cli.rule_flags import Given, parted
from moneystate.cli.service_jobs import OnError, OnErrorFlag, Prepared, Services, prepare_services
from moneystate.errors import ConfigError
from moneystate.job.run_options import RunOptions
from moneystate.kafka.findings import Finding
from moneystate.spark.diagnosis import diagnose


def _prepare(
    context: typer.Context,
    words: Services,
    options: RunOptions,
    rule_flags: RuleFlags,
    session_flags: SessionFlags,
    on_error: OnErrorFlag = OnError.fail,
    format: Format = None,
) -> list[Prepared]:
    given = parted(words)
    name = next((word for word in given.services if word in registry.PREPARED), "")
    if name:
        _check_alone(name, given)
        return [registry.PREPARED[name](context, options, rule_flags, session_flags, format=format)]
    shared = asdict(session_flags)
    rules = [f"--{name.replace('_', '-')}={value}" for name, value in shared.items() if _is_given(context, name)]
    return prepare_services(context, [*words, *rules], options, rule_flags, on_error, format)


def _check_alone(name: str, given: Given) -> None:
    """Checks that a service with a command of its own is named alone. Raises ConfigError."""
    if len(given.services) > 1:
        raise ConfigError(f"{name}: expected it alone, found another service.", "check each by itself.")
    if given.rules:
        raise ConfigError(f"{given.rules[0][0]}: expected a flag of the command, found another one.", "see --help.")


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether a flag of the enrichment is on the command line. For a plain service it is a rule of the same name, which
    has no variable and no key in the command's table."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def doctor_services(prepared: list[Prepared], data: ReplicaFolder = "", json_output: Json = False) -> None:
    """Find what is wrong with a job's surroundings.

    It takes the flags of `run`, or of `enrich` with SERVICE enrichment, and checks brokers, topics, permissions, Java,
    disks, clocks and versions. It can run beside the job. It ends with code 1 if there are errors, else with 0.
    """
    by_service = {one.spec.name: diagnose(one.spec, one.options, data) for one in prepared}
    if json_output:
        typer.echo(json.dumps({service: [asdict(finding) for finding in mine] for service, mine in by_service.items()}))
    else:
        _show(by_service)
    end_with_errors(finding for mine in by_service.values() for finding in mine)


doctor = flagged(doctor_services, "prepared", flagged(_prepare, "options", job_options))


def _show(by_service: dict[str, list[Finding]]) -> None:
    console = Console(highlight=False)
    for service, mine in by_service.items():
        if len(by_service) > 1:
            console.print(Text(service, "bold"))
        show_findings(console, mine)
