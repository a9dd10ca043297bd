"""`moneystate state`: what the job knows."""

from __future__ import annotations

import typer

from services.cli import state_query, state_upgrade

app = typer.Typer(
    name="state", help="What the job knows: ask a query server, or bring it to another version.", no_args_is_help=True
)
state_query.register(app)
state_upgrade.register(app)
