"""Change events of a database, as what happened. docs/changes.md has the rules."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

import moneystate as ms
from moneystate.records.json_text import member_texts
from services.changes import records as r
from services.changes.apply import Applying
from services.changes.config import Config, Table, check
from services.changes.decode import ChangeDecoder, beat_decoder, end_decoder
from services.changes.effects import Effects
from services.changes.gathering import Gathering, change_id, unit_of
from services.changes.keys import key_of
from services.changes.matching import Matching
from services.changes.queries import declare_queries
from services.changes.rows import Version, referred, row_id
from services.changes.store import Store, applied_id, slot_ms_of
from services.changes.transactions import Transactions, pending_id

REMOVED: Final = "removed_table"  # counts records that were read before the configuration lost their table
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
        self.slot_ms = slot_ms_of(config)
        self.collections = {config.collection_of(table): table.name for table in config.tables}
        self.connector = service.value("connector", r.Connector)
        self.rows = service.map("rows", r.Row)
        self.open = service.map("open", r.Open)
        self.pending = service.map("pending", r.Pending)
        self.queue = service.map("queue", r.Queued)
        self.applied = service.map("applied", r.Applied)
        self.late = service.map("late", r.Forgotten)
        self.slots = service.map("slots", r.Forgotten)
        self.gathered = service.map("gathered", r.Gathered)
        self.waits = service.value("waits", r.Waits)
        self.arrived = service.map("arrived", r.Arrived)
        self.at_commit = service.map("at_commit", r.Units)
        self.numbers = service.map("numbers", ms.Packed)
        self.waiting = service.map("waiting", r.Waiting)
        self.wanted = service.map("wanted", r.Ids)
        self.gone = service.map("gone", r.Ids)
        self.turns = service.map("turns", r.Turn)
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
        changes = reduce(or_, inputs)
        beats = self._input(config.heartbeats_from, r.Beat, beat_decoder(config))
        if config.transactions:
            ends = self._input(config.transactions_from, r.Ended, end_decoder(config), partitions=1)
            self._transaction_mode(changes, ends, beats)
        else:
            self._wait_mode(changes, beats)

        declare_queries(service, self.tables, self.rows, self.open, self.queue, self.waiting, self.turns)

    def _input(self, topic: str, record: type[Any], decode: Any, partitions: int | None = None) -> ms.Input[Any]:
        return self.service.input(
            topic, record, key="connector", time=ms.arrival, bound_ms=self.config.arrival_bound_ms, format="json",
            decode=decode, partitions=partitions,
        )  # fmt: skip

    # Transaction mode

    def _transaction_mode(
        self, changes: ms.Source[r.Change], ends: ms.Source[r.Ended], beats: ms.Source[r.Beat]
    ) -> None:
        on: Any = self.service.on  # whose types end at five states
        read_ahead = (
            self.connector, self.rows.at(self.row_ids), self.applied.at(self.applied_ids), self.late, self.slots,
            self.open.at(transaction_of), self.pending.at(pending_of), self.queue,
        )  # fmt: skip
        on(changes, *read_ahead)(self.change)
        on(ends, *read_ahead)(self.end)
        self.service.on(beats, self.connector)(self.beat)
        states = self.connector, self.rows, self.applied, self.late, self.slots, self.open, self.pending, self.queue
        on(self.due, *states)(self.timer)

    def change(self, ctx: ms.Context[Config], e: r.Change, *states: Any) -> None:
        if e.table in self.tables:
            self._transactions(ctx, *states).change(e)
        else:
            ctx.count(REMOVED)

    def end(self, ctx: ms.Context[Config], e: r.Ended, *states: Any) -> None:
        self._transactions(ctx, *states).end(e)

    def beat(self, ctx: ms.Context[Config], e: r.Beat, connector: r.Connector) -> None:
        """Only time goes on."""

    def timer(self, ctx: ms.Context[Config], *states: Any) -> None:
        self._transactions(ctx, *states).due()

    def _transactions(
        self, ctx: ms.Context[Config], connector: r.Connector, rows: ms.Entries[r.Row],
        applied: ms.Entries[r.Applied], late: ms.Entries[r.Forgotten], slots: ms.Entries[r.Forgotten], *own: Any,
    ) -> Transactions:  # fmt: skip
        applying = self._applying(ctx, connector, rows, applied, late, slots)
        return Transactions(ctx, self.due, self.collections, connector, applying, *own)

    def _applying(self, ctx: ms.Context[Config], *states: Any) -> Applying:
        return Applying(ctx, self.tables, Store(ctx.rules, *states), Effects(ctx, self.events, self.row_outputs))

    # Wait mode

    def _wait_mode(self, changes: ms.Source[r.Change], beats: ms.Source[r.Beat]) -> None:
        on: Any = self.service.on
        own = (
            self.waits, self.arrived, self.at_commit, self.numbers, self.waiting, self.wanted, self.gone, self.turns,
        )  # fmt: skip
        read_ahead = (
            self.connector, self.rows.at(self.row_ids), self.applied.at(self.gathered_ids),
            self.late.at(change_ids), self.slots, self.gathered.at(unit_ids), self.pending.at(change_ids),
        )  # fmt: skip
        states = self.connector, self.rows, self.applied, self.late, self.slots, self.gathered, self.pending
        on(changes, *read_ahead, *own)(self.gather)
        on(beats, *states, *own)(self.close)
        on(self.due, *states, *own)(self.end_waits)

    def gather(self, ctx: ms.Context[Config], e: r.Change, *states: Any) -> None:
        if e.table in self.tables:
            self._gathering(ctx, *states).change(e)
        else:
            ctx.count(REMOVED)

    def close(self, ctx: ms.Context[Config], e: r.Beat, *states: Any) -> None:
        self._gathering(ctx, *states).beat()

    def end_waits(self, ctx: ms.Context[Config], *states: Any) -> None:
        self._gathering(ctx, *states).due()

    def _gathering(
        self, ctx: ms.Context[Config], connector: r.Connector, rows: ms.Entries[r.Row],
        applied: ms.Entries[r.Applied], late: ms.Entries[r.Forgotten], slots: ms.Entries[r.Forgotten],
        gathered: ms.Entries[r.Gathered], pending: ms.Entries[r.Pending], waits: r.Waits,
        arrived: ms.Entries[r.Arrived], at_commit: ms.Entries[r.Units], numbers: ms.PackedEntries, *waiting: Any,
    ) -> Gathering:  # fmt: skip
        applying = self._applying(ctx, connector, rows, applied, late, slots)
        matching = Matching(ctx, self.due, connector, waits, applying, *waiting)
        commits = ms.NumberSet("commits", numbers)
        return Gathering(ctx, waits, gathered, pending, arrived, at_commit, commits, applying, matching)

    # Reading ahead

    def row_ids(self, e: r.Change | r.Ended) -> list[str]:
        """The row that a change is about, and those that it refers to."""
        if not isinstance(e, r.Change) or e.op == "t" or e.problem or e.table not in self.tables:
            return []
        keys = [key for key in (e.key, e.other_key) if key]
        return [*[row_id(e.table, key) for key in keys], *self._parents(self.tables[e.table], e.after)]

    def applied_ids(self, e: r.Change | r.Ended) -> list[str]:
        return [applied_id(e.transaction, self.slot_ms)] if e.transaction else []

    def gathered_ids(self, e: r.Change) -> list[str]:
        return [applied_id(unit_of(e), self.slot_ms)]

    def _parents(self, table: Table, row: ms.Json | None) -> list[str]:
        if row is None or table.student is None or table.course is None:
            return []
        version = Version(member_texts(row.text))
        references = [(its.table, referred(version, its)) for its in (table.student, table.course)]
        return [row_id(name, key) for name, key in references if key]


def transaction_of(e: r.Change | r.Ended) -> list[str]:
    return [e.transaction] if e.transaction else []


def pending_of(e: r.Change | r.Ended) -> list[str]:
    return [pending_id(e)] if isinstance(e, r.Change) and e.transaction else []


def unit_ids(e: r.Change) -> list[str]:
    return [unit_of(e)]


def change_ids(e: r.Change) -> list[str]:
    return [change_id(e)]
