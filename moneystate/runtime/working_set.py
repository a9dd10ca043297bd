"""The cells of one batch of one key group: declared by its items, or requested by its steps."""

from __future__ import annotations

from typing import Final

from moneystate.engine.state import StateAccess
from moneystate.runtime import layout
from moneystate.runtime.cells import Cell, RecordKind, TimerKind
from moneystate.runtime.seen_page import SeenKind

MOST_WHOLE: Final = 128  # entries; a batch reads a map of fewer at once, instead of searching it key by key

AnyKind = RecordKind | SeenKind | TimerKind


class WorkingSet:
    """Reads each entry at most once in a batch.

    Most cells are looked up many times, so they are found by kind, owner and id, and the entry's key is made once.
    """

    def __init__(self, state: StateAccess) -> None:
        self.state = state
        self.cells: list[Cell] = []  # in the order in which they were asked for
        self.single: dict[AnyKind, dict[bytes, Cell]] = {}  # by owner: the cells without an id
        self.by_id: dict[AnyKind, dict[bytes, dict[bytes, Cell]]] = {}  # by owner and id: the others
        self.is_whole: dict[AnyKind, bool] = {}  # whether all entries of a kind are here
        self.scanned_prefixes: dict[bytes, list[bytes]] = {}  # by the key of an entry without its id; see `scan`

    def cell(self, kind: AnyKind, owner: bytes, id: bytes) -> Cell:
        """The cell of an entry. The entry may not be loaded yet, and may not exist."""
        if not id:
            singles = self.single.get(kind)
            if singles is None:
                singles = self.single[kind] = {}
            cell = singles.get(owner)
            if cell is None:
                cell = singles[owner] = self._new(kind, owner, id)
            return cell
        owners = self.by_id.get(kind)
        if owners is None:
            owners = self.by_id[kind] = {}
        ids = owners.get(owner)
        if ids is None:
            ids = owners[owner] = {}
        cell = ids.get(id)
        if cell is None:
            cell = ids[id] = self._new(kind, owner, id)
        return cell

    def _new(self, kind: AnyKind, owner: bytes, id: bytes) -> Cell:
        cell = Cell(layout.entry_key(kind.prefix, owner, id), kind, owner, id)
        self.cells.append(cell)
        return cell

    def decode(self, cell: Cell) -> None:
        """Makes the cell's value available, and reads the entry if necessary."""
        if not cell.decoded:
            if not cell.loaded and not cell.dirty:
                self.load([cell])
            cell.decode()

    def load_times(self, cell: Cell) -> None:
        """Makes the cell's times available, without decoding the entry."""
        if not cell.loaded and not cell.dirty:
            self.load([cell])
        cell.load_times()

    def exists(self, cell: Cell, time_ms: int) -> bool:
        """Whether there is an entry that has not expired. Decodes it only if necessary."""
        if not cell.loaded and not cell.dirty:
            self.load([cell])
        return cell.exists(time_ms)

    def load(self, cells: list[Cell]) -> None:
        """Reads the entries of all `cells` in one request."""
        if cells:
            entries = self.state.get_many([cell.key for cell in cells])
            for cell, stored in zip(cells, entries, strict=True):
                cell.load(stored)

    def load_announced(self) -> None:
        self.load([cell for cell in self.cells if not cell.loaded])

    def changed(self) -> list[Cell]:
        """The cells that steps may have changed, loaded: the caller compares them with the stored bytes."""
        changed = [cell for cell in self.cells if cell.dirty]
        self.load([cell for cell in changed if not cell.loaded])
        return changed

    def cells_of(self, kind: AnyKind, owner: bytes, id_prefix: bytes = b"") -> list[Cell]:
        """The cells of a kind under a key whose ids begin with `id_prefix`, in the order of the ids."""
        self.scan(kind, owner, layout.entry_key(kind.prefix, owner, id_prefix))
        owners = self.by_id.get(kind)
        ids = None if owners is None else owners.get(owner)
        cells = [] if ids is None else [cell for id, cell in ids.items() if id.startswith(id_prefix)]
        if len(cells) > 1:
            cells.sort(key=_id_of)
        if id_prefix:
            return cells
        singles = self.single.get(kind)
        single = None if singles is None else singles.get(owner)
        return cells if single is None else [single, *cells]

    def scan(self, kind: AnyKind, owner: bytes, wanted: bytes) -> None:
        """Makes a cell for each stored entry of the owner whose key begins with `wanted`."""
        is_whole = self.is_whole.get(kind)
        if is_whole is None:
            is_whole = self.is_whole[kind] = self._read_whole(kind)
        if is_whole:
            return
        base = layout.entry_key(kind.prefix, owner)
        done = self.scanned_prefixes.get(base)
        if done is None:
            done = self.scanned_prefixes[base] = []
        for prefix in done:
            if wanted.startswith(prefix):
                return
        skip = len(base)
        for key, stored in self.state.scan(wanted):
            self._take(kind, owner, key[skip:], stored)
        done.append(wanted)

    def _read_whole(self, kind: AnyKind) -> bool:
        """Reads all entries of a kind, if they are few."""
        for n, (key, stored) in enumerate(self.state.scan(kind.prefix)):
            if n == MOST_WHOLE:
                return False
            place = layout.place_of(key)
            assert place is not None
            self._take(kind, place.owner, place.id, stored)
        return True

    def _take(self, kind: AnyKind, owner: bytes, id: bytes, stored: bytes) -> None:
        cell = self.cell(kind, owner, id)
        if not cell.loaded:
            cell.load(stored)


def _id_of(cell: Cell) -> bytes:
    return cell.id
