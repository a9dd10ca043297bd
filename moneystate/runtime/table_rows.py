"""The row of the step's own key, in a local table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moneystate.api.table import TableKey
from moneystate.api.tables import TableIndex
from moneystate.errors import StepError
from moneystate.records.reading import key_bytes, key_text
from moneystate.runtime.cells import Cell, RecordKind
from moneystate.runtime.table_plan import TablePlan


class OwnRow:
    """`moneystate.api.table.TableAccess`. Each step gets a row of its own, so it changes nothing for others."""

    def __init__(self, planned: TablePlan, cell: Cell, now_ms: int) -> None:
        self.planned = planned
        self.cell = cell
        self.now_ms = now_ms
        self.versions: list[Any] | None = None

    def get(self, key: TableKey, at_ms: int | None) -> Any:
        own = self.cell.owner
        if text_of(key) != own:
            raise StepError(
                f"{self.planned.table!r}: expected the step's own key {own.decode()!r}, found {key!r}.",
                "declare the table without local=True to read rows of other keys.",
            )
        if self.versions is None:
            self.versions = versions_in(self.cell)
        version = self.planned.row_at(self.versions, self.now_ms, at_ms)
        return None if version is None else version.row

    def find(self, index: TableIndex[Any, Any], by: Any, at_ms: int | None) -> Iterator[tuple[str, Any]]:
        raise AssertionError("a local table has no index")

    def find_any(
        self, index: TableIndex[Any, Any], values: Iterable[Any], at_ms: int | None
    ) -> list[tuple[str, Any]]:  # fmt: skip
        raise AssertionError("a local table has no index")


def text_of(key: TableKey) -> bytes:
    return key_bytes(key if type(key) is str else key_text(key if isinstance(key, tuple) else (key,)))


def versions_in(cell: Cell) -> list[Any]:
    """The versions of the row in a loaded cell."""
    kind = cell.kind
    assert isinstance(kind, RecordKind)
    if cell.dirty:
        body = cell.body
    else:
        body = None if cell.stored is None else kind.stored_body(cell.stored)
    if body is None:
        return []
    versions: list[Any] = kind.codec.read_own_body(body, 0)[0].versions
    return versions
