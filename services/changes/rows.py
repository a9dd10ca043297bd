"""Rows as texts: a row at one time, its differences from another one, and the row that it refers to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import moneystate as ms
from moneystate.records.json_text import canonical_text, member_texts, parse, quote
from moneystate.records.json_value import json_as_is
from services.changes.config import Reference, Table
from services.changes.records import NONE, Change, Row

NULL: Final = "null"
KEY: Final = "key"  # among the names of changed columns
NOTHING: Final = ""  # a reference that is null


@dataclass(frozen=True)
class Version:
    """A row at one time: canonical texts by column, and the columns that the log never had. `partial`: all that is
    known are these columns, those of the key."""

    columns: Mapping[str, str]
    unknown: frozenset[str] = frozenset()
    partial: bool = False

    def text(self) -> ms.Json:
        shown = self.columns if not self.unknown else {**self.columns, **dict.fromkeys(self.unknown, NULL)}
        return object_of(shown)

    def only(self, columns: Iterable[str]) -> Version:
        return Version({name: self.columns[name] for name in columns if name in self.columns}, partial=True)


def object_of(texts: Mapping[str, str]) -> ms.Json:
    """Makes an object of canonical texts by name."""
    return json_as_is("{" + ",".join([quote(name) + ":" + texts[name] for name in sorted(texts)]) + "}")


def version_of(row: Row | None) -> Version | None:
    """None: it does not exist, or is not known."""
    if row is None or row.columns is None:
        return None
    return version_in(row.columns, row.unknown)


def version_in(row: ms.Json, unknown_names: ms.Json) -> Version:
    columns = member_texts(row.text)
    if unknown_names.text == NONE.text:
        return Version(columns)
    unknown = frozenset(parse(unknown_names.text))
    return Version({name: text for name, text in columns.items() if name not in unknown}, unknown)


def unknown_text(version: Version) -> ms.Json:
    return ms.Json.of(sorted(version.unknown)) if version.unknown else NONE


def after_of(change: Change, table: Table, previous: Version | None) -> Version:
    """The row after a creation, an update or in a snapshot. Columns that the log does not have are as they were."""
    assert change.after is not None
    columns = member_texts(change.after.text)
    if change.unavailable.text == NONE.text:
        return Version(columns)
    before = whole_before(change, table)
    unknown = []
    for name in parse(change.unavailable.text):
        sources = [version.columns for version in (previous, before) if version is not None and name in version.columns]
        if sources:
            columns[name] = sources[0][name]
        else:
            unknown.append(name)
    return Version(columns, frozenset(unknown))


def whole_before(change: Change, table: Table) -> Version | None:
    """The row before a change as the event has it, None where the replica identity leaves columns out."""
    if not table.full or change.before is None:
        return None
    return Version(member_texts(change.before.text))


def key_before(change: Change, table: Table) -> Version:
    """Returns what a deletion says of a row that is not known: all, or its key."""
    whole = whole_before(change, table)
    if whole is not None:
        return whole
    return key_version(change.key, table)


def key_version(key: str, table: Table) -> Version:
    texts = item_texts(key)
    return Version(dict(zip(table.key, texts, strict=True)), partial=True)


def item_texts(array: str) -> list[str]:
    """The canonical texts of the values of a key."""
    return [canonical_text(value) for value in parse(array)]


def changed_columns(before: Version, after: Version) -> list[str]:
    """The columns whose values differ, as far as both are known."""
    unknown = before.unknown | after.unknown
    names = sorted({*before.columns, *after.columns} - unknown)
    return [name for name in names if before.columns.get(name, NULL) != after.columns.get(name, NULL)]


def referred(row: Version | None, reference: Reference) -> str | None:
    """The key that a row refers to; NOTHING: it refers to no row; None: it is not known."""
    if row is None:
        return None
    texts = [row.columns.get(name) for name in reference.columns]
    if NULL in texts:
        return NOTHING
    known = [text for text in texts if text is not None]
    return None if len(known) < len(texts) else "[" + ",".join(known) + "]"


def row_id(table: str, key: str) -> str:
    """Makes the id of a row among those of all tables. It is also the key of its events."""
    return f"[{quote(table)},{key[1:]}"


def table_prefix(table: str) -> str:
    """Makes the prefix of the ids of a table's rows."""
    return f"[{quote(table)},"
