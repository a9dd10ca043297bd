"""The cells of one batch of one key group: declared by its items, or requested by its steps."""

from __future__ import annotations

from moneystate.api import layout
from moneystate.api.cells import Cell, RecordKind, SeenKind, TimerKind
from moneystate.engine.state import StateAccess

AnyKind = RecordKind | SeenKind | TimerKind


class WorkingSet:
    """Reads each entry at most once in a batch.

    An entry's base is its key without the id. All entries of one map under one key share it.
    """

    def __init__(self, state: StateAccess) -> None:
        self.state = state
        self.cells: dict[bytes, Cell] = {}  # by entry key
        self.cells_by_map: dict[bytes, list[Cell]] = {}  # by base; only entries of maps
        self.scanned_prefixes: dict[bytes, list[bytes]] = {}  # by base: every stored entry with such a key has a cell

    def cell(self, kind: AnyKind, owner: bytes, id: bytes) -> Cell:
        """The cell of an entry. The entry may not be loaded yet, and may not exist."""
        key = layout.entry_key(kind.prefix, owner, id)
        cell = self.cells.get(key)
        if cell is None:
            cell = Cell(key, kind, owner, id)
            self.cells[key] = cell
            if kind.prefix[:1] == layout.ENTRY:
                base = key[: len(key) - len(id)]
                if base in self.cells_by_map:
                    self.cells_by_map[base].append(cell)
                else:
                    self.cells_by_map[base] = [cell]
        return cell

    def decode(self, cell: Cell) -> None:
        """Makes the cell's value available, and reads the entry if necessary."""
        if not cell.decoded:
            if not cell.loaded:
                self.load([cell])
            cell.decode()

    def load(self, cells: list[Cell]) -> None:
        """Reads the entries of all `cells` in one request."""
        if cells:
            entries = self.state.get_many([cell.key for cell in cells])
            for cell, stored in zip(cells, entries, strict=True):
                cell.load(stored)

    def load_announced(self) -> None:
        self.load([cell for cell in self.cells.values() if not cell.loaded])

    def changed(self) -> list[Cell]:
        """The cells that steps may have changed, loaded: the caller compares them with the stored bytes."""
        changed = [cell for cell in self.cells.values() if cell.dirty]
        self.load([cell for cell in changed if not cell.loaded])
        return changed

    def cells_of_map(self, kind: AnyKind, owner: bytes, id_prefix: bytes) -> list[Cell]:
        """The cells of a map under a key whose ids begin with `id_prefix`, in the order of the ids."""
        base = layout.entry_key(kind.prefix, owner)
        wanted = base + id_prefix
        self.scan(kind, owner, wanted)
        cells = [cell for cell in self.cells_by_map.get(base, []) if cell.key.startswith(wanted)]
        cells.sort(key=_id_of)
        return cells

    def cells_of_key(self, kind: AnyKind, owner: bytes) -> list[Cell]:
        """All cells of a kind under a key. It searches all cells, because `cells_by_map` has only those of maps."""
        base = layout.entry_key(kind.prefix, owner)
        self.scan(kind, owner, base)
        return [cell for key, cell in self.cells.items() if key.startswith(base)]

    def scan(self, kind: AnyKind, owner: bytes, wanted: bytes) -> None:
        """Makes a cell for each stored entry of the owner whose key begins with `wanted`."""
        base = layout.entry_key(kind.prefix, owner)
        done = self.scanned_prefixes.setdefault(base, [])
        if any(wanted.startswith(prefix) for prefix in done):
            return
        skip = len(base)
        for key, stored in self.state.scan(wanted):
            cell = self.cell(kind, owner, key[skip:])
            if not cell.loaded:
                cell.load(stored)
        done.append(wanted)


def _id_of(cell: Cell) -> bytes:
    return cell.id
