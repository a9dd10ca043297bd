"""`moneystate state`: a job's state, looked at and moved."""

from __future__ import annotations

import typer

from services.cli import state_offline

app = typer.Typer(name="state", help="Look at a job's state, and move it.", no_args_is_help=True)
state_offline.register(app)
