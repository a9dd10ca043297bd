"""The rows of a table's copy that stay decoded.

A step gets the decoded row of an earlier step where nobody can change it. Decoding costs two thirds of a read. All rows
decoded would take several times the memory of their bytes, so only as many stay as a bound allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

BOUND_BYTES: Final = 32_000_000  # by estimate, for each table in a process
ROW_BYTES: Final = 300  # an estimate: the object, and its place here
FIELD_BYTES: Final = 64  # an estimate, besides the field's content


class DecodedRows:
    """Rows by key.

    When the bound is reached, the rows that are there stay, so that reading all rows in turn still finds most of them.
    After as many misses as there are rows, all go, because others are in use by now.
    """

    def __init__(self, read: Callable[[bytes, int], Any], fields: int, bound: int = BOUND_BYTES) -> None:
        """`read` decodes a body from an offset."""
        self.read = read
        self.row_bytes = ROW_BYTES + FIELD_BYTES * fields
        self.bound = bound
        self.rows: dict[bytes, tuple[bytes, Any]] = {}
        self.bytes = 0
        self.misses = 0

    def get(self, key: bytes, content: bytes, start: int) -> Any:
        """The row of `key`, whose body begins at `start` of `content`. A replaced row has another `content`."""
        decoded = self.rows.get(key)
        if decoded is not None and decoded[0] is content:
            return decoded[1]
        row = self.read(content, start)
        if decoded is not None:
            self.bytes += len(content) - len(decoded[0])
        else:
            size = self.row_bytes + len(content)
            if self.bytes + size > self.bound and not self._has_room():
                return row
            self.bytes += size
        self.rows[key] = (content, row)
        return row

    def _has_room(self) -> bool:
        self.misses += 1
        if self.misses < len(self.rows):
            return False
        self.rows.clear()
        self.bytes = self.misses = 0
        return True
