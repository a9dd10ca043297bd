"""The entries of a map as a step uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moneystate.errors import StepError
from moneystate.runtime import layout
from moneystate.runtime.cells import Cell, RecordKind

if TYPE_CHECKING:
    from moneystate.runtime.current_step import CurrentStep


class MapCells:
    """`moneystate.api.entries.MapAccess`: the entries of a map under the key of the current step."""

    def __init__(self, step: CurrentStep, kind: RecordKind) -> None:
        self.step = step
        self.kind = kind

    def get(self, id: str) -> object | None:
        cell = self._unexpired(self.step.cells.cell(self.kind, self.step.owner, id_bytes(id)))
        if cell is None:
            return None
        if not self.kind.immutable:
            self.step.changes.begin_change(cell)
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
        cell = self.step.cells.cell(kind, self.step.owner, id_bytes(id))
        self.step.changes.replace(cell, record)
        if kind.keeps_times:
            self.step.changes.mark_written(cell)

    def delete(self, id: str) -> None:
        self.step.changes.replace(self.step.cells.cell(self.kind, self.step.owner, id_bytes(id)), None)

    def has(self, id: str) -> bool:
        return self._exists(self.step.cells.cell(self.kind, self.step.owner, id_bytes(id)))

    def ids(self, prefix: str) -> list[str]:
        cells = self.step.cells.cells_of(self.kind, self.step.owner, prefix.encode())
        return [cell.id.decode() for cell in cells if self._exists(cell)]

    def _exists(self, cell: Cell) -> bool:
        exists = self.step.cells.exists(cell, self.step.now)
        self.step.changes.begin_ttl(cell)
        return exists

    def _unexpired(self, cell: Cell) -> Cell | None:
        self.step.cells.decode(cell)
        self.step.changes.begin_ttl(cell)
        return None if cell.value is None or cell.has_expired(self.step.now) else cell


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
