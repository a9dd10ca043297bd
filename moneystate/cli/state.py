"""`moneystate state`: asks a query server about the enrichment's state."""

from __future__ import annotations

from moneystate.cli import state_query
from moneystate.cli.command import new_group

app = new_group("state", "Ask the enrichment's query server.")
state_query.register(app)
