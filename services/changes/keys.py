"""The keys of events: that of the root's row, `["student",1]`, as far as an event tells it."""

from __future__ import annotations

from collections.abc import Callable

import moneystate as ms
from moneystate.records.json_text import member_texts, quote
from services.changes.config import Config, Table, tables_by_name
from services.changes.records import BusinessEvent
from services.changes.rows import Version, referred, row_id


def key_of(config: Config) -> Callable[[BusinessEvent], str]:
    tables = tables_by_name(config)

    def key(event: BusinessEvent) -> str:
        table = tables[event.table]
        if event.student is not None:
            own = key_in(event.student, tables[config.root])
            return row_id(config.root, own or "[]")
        shown = [row for row in (event.link, event.after, event.before) if row is not None]
        if table.student is not None:
            students = [referred(Version(member_texts(row.text)), table.student) for row in shown]
            if any(students):
                return row_id(config.root, next(filter(None, students)))
        keys = [key for row in shown if (key := key_in(row, table)) is not None]
        return row_id(table.name, keys[0]) if keys else f"[{quote(table.name)}]"

    return key


def key_in(row: ms.Json, table: Table) -> str | None:
    """The key of a row; None: it does not have all of it."""
    columns = member_texts(row.text)
    if any(name not in columns for name in table.key):
        return None
    return "[" + ",".join([columns[name] for name in table.key]) + "]"
