"""The state that a query sees: one version, complete, read only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from moneystate.api.handles import Index, Map, MapIndex, Value

S = TypeVar("S")
V = TypeVar("V")


class View(Protocol):
    """The state that a query reads. `time_ms`: the state's watermark. Entries that have expired by then are left
    out."""

    @property
    def time_ms(self) -> int: ...

    def get(self, value: Value[S], key: str) -> S:
        """The record of a key, a new one where there is none."""
        ...

    def entry(self, of: Map[S], key: str, id: str) -> S | None: ...

    def entries(self, of: Map[S], key: str, prefix: str = "") -> Iterator[tuple[str, S]]:
        """Ids and entries in the order of the ids."""
        ...

    @overload
    def find(self, index: Index[S, V], by: V | tuple[Any, ...]) -> Iterator[tuple[str, S]]: ...
    @overload
    def find(self, index: MapIndex[S, V], by: V | tuple[Any, ...]) -> Iterator[tuple[str, str, S]]: ...
    def find(self, index: Any, by: Any) -> Iterator[Any]:
        """All with this value, or whose tuple begins with it, in the order of the index: keys and records; of a map
        keys, ids and records. A record with several such values comes once for each."""
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
        """The same of all values from `low`, included, to `high`, left out; None: no limit."""
        ...
