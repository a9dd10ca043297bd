"""The map handle that a function receives: the entries of the current key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")


class MapAccess(Protocol):
    """A map of one key, as the runtime gives it."""

    def get(self, id: str) -> object | None: ...

    def put(self, id: str, record: object) -> None: ...

    def delete(self, id: str) -> None: ...

    def has(self, id: str) -> bool: ...

    def ids(self, prefix: str) -> list[str]: ...


class Entries(Generic[S]):
    """The entries of a map under the key in hand. What `get` and `items` give is the entry itself: what the step
    changes in it is kept."""

    def __init__(self, access: MapAccess) -> None:
        self._access = access

    def get(self, id: str) -> S | None:
        return self._access.get(id)  # type: ignore[return-value]

    def __getitem__(self, id: str) -> S:
        """As `get` of an entry that must be there. Raises KeyError."""
        entry = self.get(id)
        if entry is None:
            raise KeyError(id)
        return entry

    def put(self, id: str, record: S) -> None:
        """Add the entry or replace it. With a time to live, its time begins again."""
        self._access.put(id, record)

    def delete(self, id: str) -> None:
        """Nothing happens where there is none."""
        self._access.delete(id)

    def __contains__(self, id: str) -> bool:
        return self._access.has(id)

    def ids(self, prefix: str = "") -> list[str]:
        """The ids that begin with `prefix`, in the order of their code points."""
        return self._access.ids(prefix)

    def items(self, prefix: str = "") -> Iterator[tuple[str, S]]:
        """Ids and entries, in the order of the ids; those there were when it began."""
        for id in self.ids(prefix):
            entry = self.get(id)
            if entry is not None:
                yield id, entry
