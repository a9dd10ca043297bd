"""The cells of one batch: those that its items announce, and those that its steps ask for."""

from __future__ import annotations

from moneystate.api import layout
from moneystate.api.cells import Cell, RecordKind, SeenKind, TimerKind
from moneystate.engine.state import StateAccess

AnyKind = RecordKind | SeenKind | TimerKind


class WorkingSet:
    """Of one key group."""

    def __init__(self, state: StateAccess) -> None:
        self.state = state
        self.cells: dict[bytes, Cell] = {}
        self.by_map: dict[
            bytes, list[Cell]
        ] = {}  # by the part of their keys that the entries of a map under a key share
        self.scanned: dict[bytes, list[bytes]] = {}  # by the same: prefixes of which all stored entries have cells

    def cell(self, kind: AnyKind, owner: bytes, id: bytes) -> Cell:
        """Of an entry that may not be loaded yet, or not be there."""
        key = layout.entry_key(kind.prefix, owner, id)
        cell = self.cells.get(key)
        if cell is None:
            cell = Cell(key, kind, owner, id)
            self.cells[key] = cell
            if kind.prefix[:1] == layout.ENTRY:
                base = key[: len(key) - len(id)]
                if base in self.by_map:
                    self.by_map[base].append(cell)
                else:
                    self.by_map[base] = [cell]
        return cell

    def wake(self, cell: Cell) -> None:
        """Have its value."""
        if not cell.live:
            if not cell.loaded:
                self.load([cell])
            cell.wake()

    def load(self, cells: list[Cell]) -> None:
        """In one round."""
        if cells:
            entries = self.state.get_many([cell.key for cell in cells])
            for cell, stored in zip(cells, entries, strict=True):
                cell.load(stored)

    def load_announced(self) -> None:
        self.load([cell for cell in self.cells.values() if not cell.loaded])

    def changed(self) -> list[Cell]:
        """Loaded, so that it can be told whether they are as they were."""
        changed = [cell for cell in self.cells.values() if cell.dirty]
        self.load([cell for cell in changed if not cell.loaded])
        return changed

    def in_map(self, kind: AnyKind, owner: bytes, id_prefix: bytes) -> list[Cell]:
        """The cells of a map under a key whose ids begin with `id_prefix`, in the order of the ids."""
        base = layout.entry_key(kind.prefix, owner)
        wanted = base + id_prefix
        self.scan(kind, owner, wanted)
        cells = [cell for cell in self.by_map.get(base, []) if cell.key.startswith(wanted)]
        cells.sort(key=_id_of)
        return cells

    def of_key(self, kind: AnyKind, owner: bytes) -> list[Cell]:
        """All of a kind under a key. It looks at every cell: only those of maps are gathered."""
        base = layout.entry_key(kind.prefix, owner)
        self.scan(kind, owner, base)
        return [cell for key, cell in self.cells.items() if key.startswith(base)]

    def scan(self, kind: AnyKind, owner: bytes, wanted: bytes) -> None:
        """Have a cell for each stored entry of the owner whose key begins with `wanted`."""
        base = layout.entry_key(kind.prefix, owner)
        done = self.scanned.setdefault(base, [])
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
