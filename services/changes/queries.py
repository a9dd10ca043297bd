"""The queries of changes, at any version or time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import moneystate as ms
from moneystate.records.json_text import member_texts, parse
from services.changes.config import Config, Table
from services.changes.decode import transaction_in
from services.changes.records import KnownRow, Open, OpenTransaction, Queued, Row, Turn, Waiting, WaitingEvent
from services.changes.rows import row_id
from services.changes.transactions import queue_id

LIMIT: Final = 100


def declare_queries(
    service: ms.Service[Config], tables: dict[str, Table], rows: ms.Map[Row], open: ms.Map[Open], queue: ms.Map[Queued],
    waiting: ms.Map[Waiting], turns: ms.Map[Turn],
) -> None:  # fmt: skip
    queries = Queries(service, tables, rows, open, queue, waiting, turns)
    service.query(queries.row)
    service.query(queries.events_of)
    service.query(queries.open_transactions)
    service.query(queries.waiting_events)


class Queries:
    def __init__(
        self, service: ms.Service[Config], tables: dict[str, Table], rows: ms.Map[Row], open: ms.Map[Open],
        queue: ms.Map[Queued], waiting: ms.Map[Waiting], turns: ms.Map[Turn],
    ) -> None:  # fmt: skip
        self.connector, self.tables = service.rules.connector, tables
        self.rows, self.queue, self.waiting, self.turns = rows, queue, waiting, turns
        self.oldest = service.index("oldest", open, lambda unit: unit.since)

    def row(self, view: ms.View, table: str, key: str) -> KnownRow | None:
        """`key`: a JSON array of the values of its columns, such as `[1]`."""
        return self._known(view, table, key)

    def events_of(self, view: ms.View, table: str, key: str) -> ms.Json | None:
        """The last events of a row, newest first."""
        its = self._known(view, table, key)
        return None if its is None else its.events

    def open_transactions(self, view: ms.View, limit: int = LIMIT) -> list[OpenTransaction]:
        """Lists the transactions that are not applied, and what they lack, the oldest first."""
        units = ((id, unit) for _, id, unit in view.range(self.oldest))
        return [self._opened(view, id, unit) for id, unit in ms.first(units, limit)]

    def waiting_events(self, view: ms.View, limit: int = LIMIT) -> list[WaitingEvent]:
        """Events that wait for others (wait mode), the first to end first."""
        return ms.first(self._waits(view), limit)

    def _known(self, view: ms.View, table: str, key: str) -> KnownRow | None:
        id = key_given(self.tables, table, key)
        row = view.entry(self.rows, self.connector, row_id(table, id.text))
        if row is None:
            return None
        return KnownRow(
            table, id, row.columns, list(parse(row.unknown.text)), row.committed_at, row.lsn, row.unit == 0, row.events
        )

    def _waits(self, view: ms.View) -> Iterator[WaitingEvent]:
        for number, turn in view.entries(self.turns, self.connector):
            its = view.entry(self.waiting, self.connector, turn.id)
            if its is not None and queue_id(its.turn) == number:
                yield WaitingEvent(turn.due, its.event)

    def _opened(self, view: ms.View, id: str, unit: Open) -> OpenTransaction:
        ended = None if unit.end is None else view.entry(self.queue, self.connector, queue_id(unit.end))
        there = {table: int(n) for table, n in member_texts(unit.counts.text).items()}
        lacks, due = None, None
        if ended is not None and ended.end is not None:
            counts = ended.end.counts
            lacks = {table: n - there.get(table, 0) for table, n in sorted(counts.items())}
            lacks, due = {table: n for table, n in lacks.items() if n > 0}, ended.due
        return OpenTransaction(transaction_in(id), unit.since, unit.committed_at, there, lacks, due)


def key_given(tables: dict[str, Table], table: str, key: str) -> ms.Json:
    """Raises ArgumentError."""
    known = tables.get(table)
    if known is None:
        raise ms.ArgumentError(f"table: expected one of {', '.join(tables)}, found {table}.", "name one of them.")
    try:
        id = ms.Json(key)
    except ValueError as e:
        raise ms.ArgumentError(f"key: expected a JSON array, found {key} ({e}).", "give for example [1].") from None
    if not id.text.startswith("[") or len(parse(id.text)) != len(known.key):
        raise ms.ArgumentError(f"key: expected [{', '.join(known.key)}], found {key}.", "give a value for each column.")
    return id
