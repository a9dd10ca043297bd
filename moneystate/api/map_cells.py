"""The entries of a map as a step uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moneystate.api import layout
from moneystate.api.cells import Cell, RecordKind
from moneystate.errors import StepError

if TYPE_CHECKING:
    from moneystate.api.runtime import ServiceProcessor


class MapCells:
    """`moneystate.api.entries.MapAccess`: the entries of a map under the key of the current step."""

    def __init__(self, runtime: ServiceProcessor, kind: RecordKind) -> None:
        self.runtime = runtime
        self.kind = kind

    def get(self, id: str) -> object | None:
        cell = self._unexpired(self.runtime.cells.cell(self.kind, self.runtime.owner, id_bytes(id)))
        if cell is None:
            return None
        if not self.kind.immutable:
            self.runtime.changes.begin_change(cell)
        value: object = cell.value
        return value

    def put(self, id: str, record: object) -> None:
        kind = self.kind
        if type(record) is not kind.codec.record.cls:
            expected = kind.codec.record.cls.__name__
            raise StepError(
                f"map {kind.name!r}: expected {expected}, found {type(record).__name__}.",
                f"put an object of {expected} itself: a subclass does not count.",
            )
        cell = self.runtime.cells.cell(kind, self.runtime.owner, id_bytes(id))
        self.runtime.changes.replace(cell, record)
        if kind.keeps_times:
            self.runtime.changes.mark_written(cell)

    def delete(self, id: str) -> None:
        self.runtime.changes.replace(self.runtime.cells.cell(self.kind, self.runtime.owner, id_bytes(id)), None)

    def has(self, id: str) -> bool:
        return self._exists(self.runtime.cells.cell(self.kind, self.runtime.owner, id_bytes(id)))

    def ids(self, prefix: str) -> list[str]:
        cells = self.runtime.cells.cells_of(self.kind, self.runtime.owner, prefix.encode())
        return [cell.id.decode() for cell in cells if self._exists(cell)]

    def _exists(self, cell: Cell) -> bool:
        exists = self.runtime.cells.exists(cell, self.runtime.now)
        self.runtime.changes.begin_ttl(cell)
        return exists

    def _unexpired(self, cell: Cell) -> Cell | None:
        self.runtime.cells.decode(cell)
        self.runtime.changes.begin_ttl(cell)
        return None if cell.value is None or cell.has_expired(self.runtime.now) else cell


def id_bytes(id: Any) -> bytes:
    if type(id) is not str:
        raise StepError(f"expected a string as an id, found {id!r}.", "convert it, for example with str().")
    encoded = id.encode()
    if len(encoded) > layout.MAX_ID_BYTES:
        raise StepError(
            f"expected an id of at most {layout.MAX_ID_BYTES:,} bytes, found one of {len(encoded):,}.",
            "use a shorter id, for example a hash.",
        )
    return encoded
