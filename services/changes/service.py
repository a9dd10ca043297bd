"""Change events of a database, as what happened. docs/changes.md has the rules."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

import moneystate as ms
from moneystate.api.json_text import member_texts
from services.changes import records as r
from services.changes.apply import Applying
from services.changes.config import Config, Table, check
from services.changes.decode import ChangeDecoder, beat_decoder, boundary_decoder
from services.changes.effects import Effects
from services.changes.keys import key_of
from services.changes.queries import declare_queries
from services.changes.rows import Version, referred, row_id
from services.changes.store import Store
from services.changes.transactions import Transactions, pending_id

ANY: Final = (Table("any", ("id",)),)


def changes(config: Config) -> ms.Service[Config]:
    return ChangesService(config).service


class ChangesService:
    """The declarations, and what runs on them."""

    def __init__(self, config: Config) -> None:
        self.service = service = ms.Service("changes", rules=config)
        check(service, config)
        self.config = config
        declared = config.tables or ANY  # without a configuration, its records can be released
        self.tables = {table.name: table for table in declared}
        self.collections = {config.collection_of(table): table.name for table in config.tables}
        self.connector = service.value("connector", r.Connector)
        self.rows = service.map("rows", r.Row)
        self.open = service.map("open", r.Open)
        self.pending = service.map("pending", r.Pending)
        self.queue = service.map("queue", r.Queued)
        self.applied = service.map("applied", r.Applied)
        self.late = service.map("late", r.Forgotten)
        self.slots = service.map("slots", r.Forgotten)
        self.due = service.timer("due")
        self.events = service.output("business-events", r.BusinessEvent, key=key_of(config), format=config.format)
        self.row_outputs = {
            table.name: service.output(
                f"rows-{table.name}", r.ChangedRow, key=lambda row: row.key, compacted=True, format=config.format
            )
            for table in declared
            if config.rows or not config.tables
        }
        inputs = [self._input(config.topic_of(table), r.Change, ChangeDecoder(config, table)) for table in declared]
        on: Any = service.on  # whose types end at five states
        states = (
            self.connector, self.rows.at(self.row_ids), self.open.at(unit_of), self.pending.at(pending_of), self.queue,
            self.applied.at(unit_of), self.late, self.slots,
        )  # fmt: skip
        on(reduce(or_, inputs), *states)(self.change)
        boundaries = self._input(config.transactions_from, r.Boundary, boundary_decoder(config), partitions=1)
        on(boundaries, *states)(self.boundary)
        beats = self._input(config.heartbeats_from, r.Beat, beat_decoder(config))
        service.on(beats, self.connector)(self.beat)
        on(
            self.due, self.connector, self.rows, self.open, self.pending, self.queue, self.applied, self.late,
            self.slots,
        )(self.timer)  # fmt: skip

        declare_queries(service, self.tables, self.rows, self.open, self.queue)

    def _input(self, topic: str, record: type[Any], decode: Any, partitions: int | None = None) -> ms.Input[Any]:
        return self.service.input(
            topic, record, key="connector", time=ms.arrival, bound_ms=self.config.arrival_bound_ms, format="json",
            decode=decode, partitions=partitions,
        )  # fmt: skip

    def change(self, ctx: ms.Context[Config], e: r.Change, *states: Any) -> None:
        if e.table in self.tables:
            self._step(ctx, *states).change(e)
        else:
            ctx.count("removed_table")  # its record was read before the configuration lost it

    def boundary(self, ctx: ms.Context[Config], e: r.Boundary, *states: Any) -> None:
        step = self._step(ctx, *states)
        if e.status == "BEGIN":
            step.begin(e)
        else:
            step.end(e)

    def beat(self, ctx: ms.Context[Config], e: r.Beat, connector: r.Connector) -> None:
        """Only time goes on."""

    def timer(self, ctx: ms.Context[Config], *states: Any) -> None:
        self._step(ctx, *states).due()

    def _step(
        self, ctx: ms.Context[Config], connector: r.Connector, rows: ms.Entries[r.Row], open: ms.Entries[r.Open],
        pending: ms.Entries[r.Pending], queue: ms.Entries[r.Queued], applied: ms.Entries[r.Applied],
        late: ms.Entries[r.Forgotten], slots: ms.Entries[r.Forgotten],
    ) -> Transactions:  # fmt: skip
        store = Store(ctx.rules, connector, rows, applied, late, slots)
        applying = Applying(ctx, self.tables, store, Effects(ctx, self.events, self.row_outputs))
        return Transactions(ctx, self.due, self.collections, connector, open, pending, queue, applying)

    def row_ids(self, e: r.Change | r.Boundary) -> list[str]:
        """The row that a change is about, and those that it refers to."""
        if not isinstance(e, r.Change) or e.op == "t" or e.problem or e.table not in self.tables:
            return []
        keys = [key for key in (e.key, e.other_key) if key]
        return [*[row_id(e.table, key) for key in keys], *self._parents(self.tables[e.table], e.after)]

    def _parents(self, table: Table, row: ms.Json | None) -> list[str]:
        if row is None or table.student is None or table.course is None:
            return []
        version = Version(member_texts(row.text))
        references = [(its.table, referred(version, its)) for its in (table.student, table.course)]
        return [row_id(name, key) for name, key in references if key]


def unit_of(e: r.Change | r.Boundary) -> list[str]:
    return [e.transaction] if e.transaction else []


def pending_of(e: r.Change | r.Boundary) -> list[str]:
    return [pending_id(e)] if isinstance(e, r.Change) and e.transaction else []
