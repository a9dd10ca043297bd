"""`moneystate checkpoint`: state in files, of a stopped job or a savepoint."""

from __future__ import annotations

from moneystate.cli import checkpoint_state, checkpoint_upgrade
from moneystate.cli.command import new_group

app = new_group("checkpoint", "Checkpoints of stopped jobs, and savepoints.")
checkpoint_state.register(app)
checkpoint_upgrade.register(app)
