"""The records of a table in buffer and state: what a record of its topic says, and the versions of a row.

    <Record>Change     row                          null: the row is removed
    <Record>Version    written, validFrom, row
    <Record>Versions   versions                     by the time since which they hold, ties by their places

They are made from the table's record, so that they have codecs, schemas and upgrades as all others do.
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from typing import Any, Final, NamedTuple

from moneystate.api.types import Millis


class TableRecords(NamedTuple):
    change: type
    version: type
    versions: type


_made: Final[dict[type, TableRecords]] = {}


def table_records(record: type) -> TableRecords:
    """The same for the same record."""
    if record not in _made:
        _made[record] = _make(record)
    return _made[record]


def _make(record: type) -> TableRecords:
    name, row = record.__name__, record | None
    change = _class(f"{name}Change", [("row", row)])
    version = _class(f"{name}Version", [("written", Millis), ("valid_from", Millis), ("row", row)])
    versions = _class(f"{name}Versions", [("versions", list[version], field(default_factory=list))])  # type: ignore[valid-type]
    return TableRecords(change, version, versions)


def _class(name: str, fields: list[Any]) -> type:
    return make_dataclass(name, fields)
