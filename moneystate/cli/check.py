"""`moneystate check`: checks whether a service depends on anything but the logs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from moneystate.api.reference import service_at
from moneystate.cli.option import NUMBER, Panel, option
from moneystate.cli.options import Json, seed
from moneystate.cli.services import load
from moneystate.testing.generated import check_batches
from moneystate.testing.purity import findings


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
    1. A clean check is no proof.
    """
    declared = service_at(load(service))
    problems = findings(declared)
    outputs, differs = 0, ""
    letters: dict[str, int] = {}
    try:
        outputs, letters = check_batches(declared, records, seed)
    except AssertionError as e:
        differs = str(e)
    if json_output:
        numbers = {"records": records, "outputs": outputs, "dead_letters": letters, "differs": differs or None}
        typer.echo(json.dumps({"findings": [one._asdict() for one in problems], **numbers}))
    else:
        for one in problems:
            typer.echo(one.line())
        typer.echo(differs or f"{records:,} records, {outputs:,} outputs, the same in other batches")
        if letters:
            typer.echo("dead letters: " + ", ".join(f"{reason} {n:,}" for reason, n in sorted(letters.items())))
    if problems or differs:
        raise typer.Exit(1)
