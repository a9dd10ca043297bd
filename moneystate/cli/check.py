"""`moneystate check`: checks whether a service depends on anything but the logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from moneystate.api.service import Service
from moneystate.cli.option import NUMBER, Panel, option
from moneystate.cli.options import Json, seed
from moneystate.cli.services import load
from moneystate.errors import MoneystateError
from moneystate.runtime.failures import line_of
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import job_spec, service_spec
from moneystate.runtime.personal import is_personal_path
from moneystate.runtime.plan import Plan
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import service_at
from moneystate.runtime.replica_model import ReplicaModel
from moneystate.schemas.services import findings_of
from moneystate.schemas.tree import RELEASED
from moneystate.serving.state.contract import Contract
from moneystate.testing.generated import Generated, run_generated
from moneystate.testing.purity import findings


def opened(service: Service[Any]) -> list[str]:
    """Returns what shows personal data to all callers of the query server because the declarations say so."""
    why = "personal=False, so every caller may read it"
    lines = [f"{index!r}: {why}" for index in service.indices.values() if index.personal is False]
    lines += [f"query {name!r}: {why}" for name, personal in service.personal_queries.items() if personal is False]
    plan = Plan(service)
    for declared in service.inputs:
        keys = declared.key if isinstance(declared.key, tuple) else (declared.key,)
        for key in keys:
            if isinstance(key, str) and is_personal_path(plan.codec(declared.record, repr(declared)).record, key):
                lines.append(f"{declared!r}: the key {key} is personal, and every caller may read keys")
    return lines


def refusals(reference: str) -> list[str]:
    """A line for each problem for which `run` and `serve` would refuse the service with its declared rules. A service
    that is not released yet is none."""
    return list(dict.fromkeys([*_refused(reference), *_schema_problems(reference)]))


def _refused(reference: str) -> Iterator[str]:
    parts: list[Callable[[], Any]] = [
        lambda: job_spec(reference, {}),
        lambda: service_spec(reference).state.versions,
        lambda: ReplicaModel(reference).layout,
        lambda: Contract(plan_of(reference)),
    ]
    for part in parts:
        try:
            part()
        except MoneystateError as e:
            yield str(e)


def _schema_problems(reference: str) -> Iterator[str]:
    """Finds released schemas that were edited, and records that differ from their release."""
    if not (folder_of(reference) / RELEASED).exists():
        return
    try:
        findings = findings_of(reference)
    except MoneystateError as e:
        yield str(e)
        return
    for finding in findings:
        if not finding.ok:
            yield f"{folder_of(reference) / finding.path}: {finding.text}. Do: {finding.fix}"


def check(
    service: Annotated[
        str,
        typer.Argument(metavar="MODULE:SERVICE", help="The service: its module, or the module's file, and its name."),
    ],
    records: Annotated[int, option("records", "How many records to generate.", Panel.run, NUMBER, least=0)] = 500,
    seed: Annotated[int, seed()] = 0,
    json_output: Json = False,
) -> None:
    """Look for mistakes in a service.

    It finds clocks, random numbers, I/O, iteration over sets, summed floats and values kept in the module. The service
    also runs on generated records in random batches. What `run` and `serve` would refuse, and exceptions of its
    functions, are problems, too. The command ends with code 0 if it finds nothing, otherwise with 1. A clean check is
    no proof. It also lists what is open to every caller by hand although it may be personal.
    """
    reference = load(service)
    declared = service_at(reference)
    problems = findings(declared)
    refused = refusals(reference)
    shown = opened(declared)
    ran, differs = Generated(0, {}, [], []), ""
    try:
        ran = run_generated(declared, records, seed)
    except AssertionError as e:
        differs = str(e)
    except Exception as e:  # of a function that no record's step calls, such as an index
        problem = (
            str(e) if isinstance(e, MoneystateError) else f"{type(e).__name__}{line_of(e)}: {e}. Do: correct that."
        )
        refused += [problem] if problem not in refused else []
    if json_output:
        report = {
            "findings": [one._asdict() for one in problems], "open": shown, "refused": refused,
            "failures": ran.failures, "warnings": ran.warnings, "records": records, "outputs": ran.outputs,
            "dead_letters": ran.dead_letters, "differs": differs or None,
        }  # fmt: skip
        typer.echo(json.dumps(report))
    else:
        for one in problems:
            typer.echo(one.line())
        for line in [*refused, *ran.failures, *ran.warnings, *shown]:
            typer.echo(line)
        typer.echo(differs or f"{records:,} records, {ran.outputs:,} outputs, the same in other batches")
        if ran.dead_letters:
            letters = sorted(ran.dead_letters.items())
            typer.echo("dead letters: " + ", ".join(f"{reason} {n:,}" for reason, n in letters))
    if problems or differs or refused or ran.failures:
        raise typer.Exit(1)
