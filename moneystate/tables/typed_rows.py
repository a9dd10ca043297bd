"""Rows of a source whose columns have types of their own: Parquet, databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moneystate.engine.avro import Malformed
from moneystate.tables.columns import Declared, check_header, check_typed, name_of
from moneystate.tables.documents import DocumentMaker
from moneystate.tables.records import BadCell
from moneystate.tables.rows import Row


class TypedRows:
    """Makes and numbers the rows."""

    def __init__(self, header: Sequence[str], declared: Declared, where: str) -> None:
        """Raises SourceError for columns that do not fit, and ConfigError for types."""
        check_typed(declared, where)
        check_header(header, declared, where)
        self._names = list(map(name_of(declared), header))
        self._values = DocumentMaker(declared.zone)
        self._rows = 0

    def row(self, values: Sequence[Any]) -> Row:
        self._rows += 1
        return Row(self._rows, dict(zip(self._names, map(self._value, values), strict=True)))

    def _value(self, value: Any) -> Any:
        try:
            return self._values.value(value)
        except Malformed as e:
            return BadCell(e)
