"""The keys of a table's rows by an index, as a process's copy of the table has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moneystate.api.tables import TableIndex
from moneystate.errors import MoneystateError, StepError
from moneystate.records import index_order


class IndexKeys:
    """The keys of a table's rows by an index, of all versions that the copy has."""

    def __init__(self, index: TableIndex[Any, Any]) -> None:
        self.index = index
        self.keys: dict[str | bytes, set[bytes]] = {}  # by the forms of values
        self.ordered: dict[str | bytes, list[tuple[bytes, str]]] = {}  # of the values that were looked up

    def form(self, value: Any) -> str | bytes:
        """Equal for equal values: a text as it is, others encoded. Encoding takes longer than looking up. Raises
        ServiceError for a value that an index cannot have."""
        if type(value) is str:
            return value
        if isinstance(value, tuple) and len(value) == 1:  # equal to its part
            value = value[0]
        return str.__str__(value) if isinstance(value, str) else index_order.encode(value, self.index)

    def values(self, row: Any) -> set[str | bytes]:
        """The forms of the row's values. Raises StepError."""
        try:
            by = self.index.by(row)
            values: Iterable[Any] = () if by is None else by if isinstance(by, list) else (by,)
            return {self.form(value) for value in values}
        except MoneystateError:
            raise
        except Exception as e:
            raise StepError(
                f"{self.index!r} of {self.index.of!r}: its function raised {type(e).__name__}: {e}.",
                "fix the function; it may return None to leave a row out of the index.",
            ) from e

    def in_order(self, value: str | bytes) -> list[tuple[bytes, str]]:
        """The keys of a value, also as texts."""
        ordered = self.ordered.get(value)
        if ordered is None:
            keys = self.keys.get(value)
            if keys is None:
                return []
            ordered = self.ordered[value] = [(key, key.decode()) for key in sorted(keys)]
        return ordered

    def add(self, key: bytes, row: Any) -> None:
        for value in self.values(row):
            keys = self.keys.setdefault(value, set())
            if key not in keys:
                keys.add(key)
                self.ordered.pop(value, None)

    def keep(self, key: bytes, before: list[Any], after: list[Any]) -> None:
        """Forgets the values that only versions had that the copy has no longer."""
        rest = {value for row in after for value in self.values(row)}
        for value in {value for row in before for value in self.values(row)} - rest:
            keys = self.keys[value]
            keys.discard(key)
            self.ordered.pop(value, None)
            if not keys:
                del self.keys[value]
