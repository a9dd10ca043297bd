"""The map handle that a function receives: the entries of the current key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")


class MapAccess(Protocol):
    """The runtime's access to a map under one key."""

    def get(self, id: str) -> object | None: ...

    def put(self, id: str, record: object) -> None: ...

    def delete(self, id: str) -> None: ...

    def has(self, id: str) -> bool: ...

    def ids(self, prefix: str) -> list[str]: ...


class Entries(Generic[S]):
    """The entries of a map under the current key. `get` and `items` return the entries themselves, not copies. A step's
    changes to them are stored."""

    def __init__(self, access: MapAccess) -> None:
        self._access = access

    def get(self, id: str) -> S | None:
        return self._access.get(id)  # type: ignore[return-value]

    def __getitem__(self, id: str) -> S:
        """Works like `get`, for an entry that must exist. Raises KeyError."""
        entry = self.get(id)
        if entry is None:
            raise KeyError(id)
        return entry

    def put(self, id: str, record: S) -> None:
        """Adds or replaces the entry, and restarts its TTL."""
        self._access.put(id, record)

    def delete(self, id: str) -> None:
        """Deletes the entry. Does nothing if it does not exist."""
        self._access.delete(id)

    def __contains__(self, id: str) -> bool:
        return self._access.has(id)

    def ids(self, prefix: str = "") -> list[str]:
        """The ids that begin with `prefix`, in code point order."""
        return self._access.ids(prefix)

    def items(self, prefix: str = "") -> Iterator[tuple[str, S]]:
        """Ids and entries, ordered by id. Entries that are added during the iteration are not included."""
        for id in self.ids(prefix):
            entry = self.get(id)
            if entry is not None:
                yield id, entry
