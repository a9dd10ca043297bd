"""Spools a service's entries to disk by key group, so that a state of any size can be read one key group at a time.

group-NNNNN    the group's entries in the order of `put`: length of key, of value (4 bytes each), key, value
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moneystate.engine.keygroup import key_group_of
from moneystate.ports.state import StateModel, owner

BUFFER_BYTES: Final = 8 << 20  # in memory, for all groups together
_SIZES: Final = struct.Struct(">II")


class Spool:
    """`put` all, then `entries`."""

    def __init__(self, state: StateModel, folder: Path, key_groups: int) -> None:
        self.state = state
        self.folder = folder  # empty at first; its creator removes it
        self.key_groups = key_groups
        self.buffered: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.buffered_bytes = 0

    def put(self, key: bytes, value: bytes) -> None:
        """Raises CheckpointError for an entry that the service does not know."""
        group = key_group_of(owner(self.state, key), self.key_groups)
        record = _SIZES.pack(len(key), len(value)) + key + value
        self.buffered[group] += record
        self.buffered_bytes += len(record)
        if self.buffered_bytes >= BUFFER_BYTES:
            self._write()

    def entries(self, group: int) -> Iterator[tuple[bytes, bytes]]:
        self._write()
        path = self._path(group)
        if not path.exists():
            return
        with path.open("rb") as file:
            while sizes := file.read(_SIZES.size):
                key_bytes, value_bytes = _SIZES.unpack(sizes)
                yield file.read(key_bytes), file.read(value_bytes)

    def _write(self) -> None:
        for group, records in self.buffered.items():
            with self._path(group).open(
                "ab"
            ) as file:  # one file at a time, because there may be more groups than file handles
                file.write(records)
        self.buffered.clear()
        self.buffered_bytes = 0

    def _path(self, group: int) -> Path:
        return self.folder / f"group-{group:05d}"
