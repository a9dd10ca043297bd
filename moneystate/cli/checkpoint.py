"""`moneystate checkpoint`: state in files, of a stopped job or a savepoint."""

from __future__ import annotations

from moneystate.cli.checkpoint_state import compare_states, export_state, fingerprint, show
from moneystate.cli.checkpoint_upgrade import upgrade
from moneystate.cli.command import add, new_group
from moneystate.cli.connection import connecting

app = new_group("checkpoint", "Checkpoints of stopped jobs, and savepoints.")
add(app, export_state, "export")
add(app, show, "show")
add(app, connecting(fingerprint), "fingerprint")
add(app, connecting(compare_states), "compare")
add(app, upgrade, "upgrade")
