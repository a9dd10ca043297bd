"""The port to a key group's entries, and an in-memory implementation for tests and offline tools.

Keys and values are bytes. The entries belong to one key group. An adapter may send many requests before it reads a
reply, so the core asks for all entries that it will need in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class StateAccess(Protocol):
    """The entries of one key group. `tests/engine/state_contract.py` tests every adapter."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None: no entry."""
        ...

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Puts each value under its key; None removes the entry. Keys are unique."""
        ...

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys begin with `prefix`, in any order. Read them all before the next `apply`."""
        ...


class MemoryState:
    """Entries in a dict."""

    def __init__(self, entries: dict[bytes, bytes] | None = None) -> None:
        self.entries: dict[bytes, bytes] = {} if entries is None else entries

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.entries.get(key) for key in keys]

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in changes:
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return iter([entry for entry in self.entries.items() if entry[0].startswith(prefix)])
