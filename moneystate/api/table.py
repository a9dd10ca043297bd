"""A table as a step reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from moneystate.api.tables import TableIndex

S = TypeVar("S")
V = TypeVar("V")

TableKey = str | int | tuple[str | int, ...]


class TableAccess(Protocol):
    """The runtime's access to a table, as of the current step."""

    def get(self, key: TableKey, at_ms: int | None) -> object | None: ...

    def find(self, index: TableIndex[Any, Any], by: Any, at_ms: int | None) -> Iterator[tuple[str, Any]]: ...

    def find_any(
        self, index: TableIndex[Any, Any], values: Iterable[Any], at_ms: int | None
    ) -> list[tuple[str, Any]]: ...  # fmt: skip


class Table(Generic[S]):
    """The rows of a table that hold at the time of the step."""

    def __init__(self, access: TableAccess) -> None:
        self._access = access

    def get(self, key: TableKey, *, at: int | None = None) -> S | None:
        """The row of a key; None: there is none. `key`: for a composite key the tuple of its parts.

        `at`: a time in ms, for a table with `history_ms`. Of the rows that are known by now, the one with the greatest
        `valid_from` up to `at`.
        """
        return self._access.get(key, at)  # type: ignore[return-value]

    def find(self, index: TableIndex[S, V], by: V, *, at: int | None = None) -> Iterator[tuple[str, S]]:
        """Keys and rows with this index value, ordered by key. `at`: as for `get`. Not in a local table."""
        return self._access.find(index, by, at)

    def find_any(
        self, index: TableIndex[S, V], values: Iterable[V], *, at: int | None = None
    ) -> list[tuple[str, S]]:  # fmt: skip
        """Works like `find`, for rows with one of these values or more, each once."""
        return self._access.find_any(index, values, at)

    def __getitem__(self, key: TableKey) -> S:
        """Works like `get`, for a row that must exist. Raises KeyError."""
        row = self.get(key)
        if row is None:
            raise KeyError(key)
        return row

    def __contains__(self, key: TableKey) -> bool:
        return self.get(key) is not None
