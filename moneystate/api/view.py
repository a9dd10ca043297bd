"""State as a query sees it: of one version, complete, read only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from moneystate.api.handles import Index, Map, Value

S = TypeVar("S")
V = TypeVar("V")


class View(Protocol):
    """`time_ms`: the watermark that the state stands at."""

    @property
    def time_ms(self) -> int: ...

    def get(self, value: Value[S], key: str) -> S:
        """The record of a key, a new one where there is none."""
        ...

    def entry(self, of: Map[S], key: str, id: str) -> S | None: ...

    def entries(self, of: Map[S], key: str, prefix: str = "") -> Iterator[tuple[str, S]]:
        """Ids and entries in the order of the ids."""
        ...

    def find(self, index: Index[S, V], by: V) -> Iterator[tuple[str, S]]:
        """Keys and records, in the order of the keys."""
        ...
