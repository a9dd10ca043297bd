"""What a step puts out: events, and the rows of tables if they are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import moneystate as ms
from services.changes.fold import ALL, Folded
from services.changes.records import BusinessEvent, ChangedRow
from services.changes.rows import Version
from services.changes.store import Store


@dataclass
class Effects:
    """`rows`: the output of each table, none if rows are not wanted."""

    ctx: ms.Context[Any]
    events: ms.Output[BusinessEvent]
    rows: Mapping[str, ms.Output[ChangedRow]]

    def tell(self, event: BusinessEvent) -> None:
        self.ctx.emit(self.events, event)
        self.ctx.count(f"events.{event.certainty.lower()}")

    def row(self, table: str, key: str, version: Version | None, committed_at: int) -> None:
        if not self.rows:
            return
        if version is None:
            self.ctx.remove(self.rows[table], key)
        else:
            self.ctx.emit(self.rows[table], ChangedRow(table, key, version.text(), committed_at))

    def rows_of(self, folded: Folded, store: Store, committed_at: int) -> None:
        """Puts out the rows of a unit, before it is written to the state."""
        if not self.rows:
            return
        own: dict[str, dict[str, None]] = {}  # keys that the unit wrote, by table
        for (table, key), version in folded.effects:
            if key == ALL:
                for there in [*store.keys(table), *own.pop(table, {})]:
                    self.row(table, there, None, committed_at)
            else:
                self.row(table, key, version, committed_at)
                own.setdefault(table, {})[key] = None
