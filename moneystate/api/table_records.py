"""The records of a table in buffer and state: what a record of its topic says, and the versions of a row.

    <Record>Change     row, position                row null: it is removed
    <Record>Version    written, validFrom, row, position
    <Record>Versions   versions                     by the time since which they hold, ties by their places

`position` is the place in the database's log, 0 where it is not known. Only the records of a table that is read from
change events have it (`moneystate.api.truncations`).

They are made from the table's record, so that they have codecs, schemas and upgrades as all others do.
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from typing import Any, Final, NamedTuple

from moneystate.records.types import Millis


class TableRecords(NamedTuple):
    change: type
    version: type
    versions: type


_made: Final[dict[tuple[type, bool], TableRecords]] = {}


def table_records(record: type, has_positions: bool) -> TableRecords:
    """Returns the same object for the same record."""
    made = _made.get((record, has_positions))
    if made is None:
        made = _made[record, has_positions] = _make(record, has_positions)
    return made


def _make(record: type, has_positions: bool) -> TableRecords:
    name, row = record.__name__, record | None
    position = [("position", int, field(default=0))] if has_positions else []
    change = _class(f"{name}Change", [("row", row), *position])
    version = _class(f"{name}Version", [("written", Millis), ("valid_from", Millis), ("row", row), *position])
    versions = _class(f"{name}Versions", [("versions", list[version], field(default_factory=list))])  # type: ignore[valid-type]
    return TableRecords(change, version, versions)


def _class(name: str, fields: list[Any]) -> type:
    return make_dataclass(name, fields)
