"""The state that a query reads: all entries of one version, read-only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from moneystate.errors import ArgumentError

if TYPE_CHECKING:
    from moneystate.api.handles import Index, Map, MapIndex, Value
    from moneystate.api.table import Table
    from moneystate.api.tables import DeclaredTable

S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")


def first(results: Iterable[T], limit: int, name: str = "limit") -> list[T]:
    """The first `limit` results, for a query with a limit as an argument. Reads no more. `name`: of the argument.

    Raises ArgumentError, which a query server answers as INVALID_ARGUMENT.
    """
    if limit < 0:
        raise ArgumentError(f"{name}: expected a number from 0 on, found {limit}.", "give 0 or more.")
    return list(islice(results, min(limit, sys.maxsize)))


class View(Protocol):
    """The state that a query reads, without expired entries."""

    @property
    def time_ms(self) -> int:
        """The state's watermark. It decides which entries have expired."""
        ...

    def get(self, value: Value[S], key: str) -> S:
        """The record of a key, or a new one if there is none."""
        ...

    def entry(self, of: Map[S], key: str, id: str) -> S | None: ...

    def entries_by_id(self, of: Map[S], key: str, ids: Iterable[str]) -> dict[str, S]:
        """The entries that exist of these ids. A query server reads many at once in less time than one by one."""
        ...

    def entries(self, of: Map[S], key: str, prefix: str = "") -> Iterator[tuple[str, S]]:
        """Ids and entries, ordered by id. `prefix`: of the ids."""
        ...

    def table(self, of: DeclaredTable[S]) -> Table[S]:
        """The rows of a table that hold at `time_ms`."""
        ...

    @overload
    def find(self, index: Index[S, V], by: V | tuple[Any, ...]) -> Iterator[tuple[str, S]]: ...
    @overload
    def find(self, index: MapIndex[S, V], by: V | tuple[Any, ...]) -> Iterator[tuple[str, str, S]]: ...
    def find(self, index: Any, by: Any) -> Iterator[Any]:
        """The records with this index value, or with a tuple that begins with it, in index order. Yields keys and
        records; for a map keys, ids and records. A record with several such values is yielded once for each."""
        ...

    @overload
    def range(
        self, index: Index[S, V], low: V | tuple[Any, ...] | None = None, high: V | tuple[Any, ...] | None = None
    ) -> Iterator[tuple[str, S]]: ...
    @overload
    def range(
        self, index: MapIndex[S, V], low: V | tuple[Any, ...] | None = None, high: V | tuple[Any, ...] | None = None
    ) -> Iterator[tuple[str, str, S]]: ...
    def range(self, index: Any, low: Any = None, high: Any = None) -> Iterator[Any]:
        """Works like `find`, for all values from `low` (inclusive) to `high` (exclusive). None: no limit."""
        ...
