"""`moneystate check`: does a service depend on anything but the logs?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from moneystate.api.reference import service_at
from moneystate.cli.services import load
from moneystate.testing.generated import check_batches
from moneystate.testing.purity import findings


def check(
    service: Annotated[
        str, typer.Argument(metavar="MODULE:SERVICE", help="By its module, or the module's file, and its name.")
    ],
    records: Annotated[int, typer.Option(min=0, help="How many records to generate.")] = 500,
    seed: Annotated[int, typer.Option(help="Of what is generated.")] = 0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look for clocks, random numbers, I/O, orders of sets, summed floats and what is kept in the module, and run the
    service on generated records in random batches.

    Ends with code 0 where nothing is found, else 1. It helps, it proves nothing.
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
