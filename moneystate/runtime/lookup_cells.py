"""The entries of lookups in the state.

the state of a lookup    an entry for each request that waits for its reply, by the identity of the request. A
                         further request of the same identity has ` 1` behind it, and so on
early_replies            replies that came before their request, by lookup and identity, until the watermark has
                         passed the time of the request
"""

from __future__ import annotations

from typing import Any, Final

from moneystate.runtime.cells import Cell, RecordKind
from moneystate.runtime.lookup_plan import LookupPlan
from moneystate.runtime.map_cells import id_bytes
from moneystate.runtime.working_set import WorkingSet

EARLY_REPLIES: Final = "early_replies"


class LookupCells:
    """The entries of one identity under a key, in a batch."""

    def __init__(
        self, cells: WorkingSet, kinds: dict[str, RecordKind], plan: LookupPlan, key: bytes, record: Any
    ) -> None:
        """`record`: the request, or its reply."""
        self.cells = cells
        self.key = key
        self.open_kind = kinds[plan.name]
        self.id = plan.id_of(record)
        self.early = cells.cell(kinds[EARLY_REPLIES], key, id_bytes(f"{plan.name} {self.id}"))
        self.first = self.open(0)

    def open(self, number: int) -> Cell:
        """The cell of an open request, the first one or a further one of the same identity."""
        id = f"{self.id} {number}" if number else self.id
        return self.cells.cell(self.open_kind, self.key, id_bytes(id))

    def load(self) -> None:
        """Reads what a request needs, in one call."""
        self.cells.load([cell for cell in (self.first, self.early) if not cell.loaded and not cell.dirty])
        self.cells.decode(self.early)

    def announce(self) -> None:
        """Lets the batch's one request read what a reply usually needs."""
        self.open(1)

    def is_open(self, cell: Cell) -> bool:
        self.cells.decode(cell)
        return cell.value is not None
