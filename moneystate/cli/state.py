"""`moneystate state`: what the job knows, asked of a query server or read from files."""

from __future__ import annotations

import typer

from moneystate.cli import state_offline, state_query, state_upgrade

app = typer.Typer(
    name="state",
    help="What the job knows: ask a query server; look at a checkpoint, move it, or bring it to another version.",
    no_args_is_help=True,
)
state_query.register(app)
state_offline.register(app)
state_upgrade.register(app)
