"""`moneystate doctor`: what is wrong, or will be, with a job's brokers, topics, folders and versions. Exit codes: 0 no
errors, 1 errors were found.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.text import Text

from moneystate.cli.findings_view import end_with_errors, show_findings
from moneystate.cli.option import flagged
from moneystate.cli.options import Json, ReplicaFolder
from moneystate.cli.service_jobs import Prepared, prepare
from moneystate.job.diagnosis import diagnose
from moneystate.kafka.findings import Finding


def doctor_services(prepared: list[Prepared], data: ReplicaFolder = "", json_output: Json = False) -> None:
    """Find what is wrong with a job's surroundings.

    It takes the flags of `run`, and checks brokers, topics, permissions, Java,
    disks, clocks and versions. It can run beside the job. It ends with code 1 if there are errors, else with 0.
    """
    by_service = {one.spec.name: diagnose(one.spec, one.options, data) for one in prepared}
    if json_output:
        typer.echo(json.dumps({service: [asdict(finding) for finding in mine] for service, mine in by_service.items()}))
    else:
        _show(by_service)
    end_with_errors(finding for mine in by_service.values() for finding in mine)


doctor = flagged(doctor_services, "prepared", prepare)


def _show(by_service: dict[str, list[Finding]]) -> None:
    console = Console(highlight=False)
    for service, mine in by_service.items():
        if len(by_service) > 1:
            console.print(Text(service, "bold"))
        show_findings(console, mine)
