"""The declaration that a function waits for a row (`Service.wait_for`). `moneystate.runtime.waiting` does it."""

from __future__ import annotations

from typing import Any, Final

from moneystate.api.handles import Reads
from moneystate.api.table import Table
from moneystate.api.tables import DeclaredTable

HELD_EVENTS: Final = "held_events"  # the name of the value and of the timer


class WaitsFor(Reads[Table[Any]]):
    """A table whose row a function waits for."""

    def __init__(self, of: DeclaredTable[Any], path: str, wait_ms: int) -> None:
        self.service = of.service
        self.name = of.name
        self.of = of
        self.path = path
        self.wait_ms = wait_ms
