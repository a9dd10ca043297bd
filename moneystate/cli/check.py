"""`moneystate check`: checks whether a service depends on anything but the logs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from moneystate.api.personal import is_personal_path
from moneystate.api.plan import Plan
from moneystate.api.reference import service_at
from moneystate.api.service import Service
from moneystate.cli.option import NUMBER, Panel, option
from moneystate.cli.options import Json, seed
from moneystate.cli.services import load
from moneystate.testing.generated import check_batches
from moneystate.testing.purity import findings


def opened(service: Service[Any]) -> list[str]:
    """What shows personal data to all callers of the query server because the declarations say so."""
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


def check(
    service: Annotated[
        str,
        typer.Argument(metavar="MODULE:SERVICE", help="The service: its module, or the module's file, and its name."),
    ],
    records: Annotated[int, option("records", "How many records to generate.", Panel.run, NUMBER, least=0)] = 500,
    seed: Annotated[int, seed()] = 0,
    json_output: Json = False,
) -> None:
    """Look for code that makes a plain service impure.

    It finds clocks, random numbers, I/O, iteration over sets, summed floats and values kept in the module. The service
    also runs on generated records in random batches. The command ends with code 0 if it finds nothing, otherwise with
    1. A clean check is no proof. It also lists what is open to every caller by hand although it may be personal.
    """
    declared = service_at(load(service))
    problems = findings(declared)
    shown = opened(declared)
    outputs, differs = 0, ""
    letters: dict[str, int] = {}
    try:
        outputs, letters = check_batches(declared, records, seed)
    except AssertionError as e:
        differs = str(e)
    if json_output:
        numbers = {"records": records, "outputs": outputs, "dead_letters": letters, "differs": differs or None}
        typer.echo(json.dumps({"findings": [one._asdict() for one in problems], "open": shown, **numbers}))
    else:
        for one in problems:
            typer.echo(one.line())
        for line in shown:
            typer.echo(line)
        typer.echo(differs or f"{records:,} records, {outputs:,} outputs, the same in other batches")
        if letters:
            typer.echo("dead letters: " + ", ".join(f"{reason} {n:,}" for reason, n in sorted(letters.items())))
    if problems or differs:
        raise typer.Exit(1)
