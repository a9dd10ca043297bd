"""The rows in the state, and what is remembered for a while: deleted rows, units and their changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Literal

import moneystate as ms
from moneystate.records.json_text import member_texts, parse, quote
from moneystate.records.json_value import json_as_is
from services.changes.config import Config
from services.changes.fold import Entity, Folded
from services.changes.happened import Told
from services.changes.records import NONE, Applied, BusinessEvent, Connector, Forgotten, Row
from services.changes.rows import Version, object_of, row_id, table_prefix, unknown_text, version_of

SLOTS: Final = 64  # of the retention
MOST_EVENTS: Final = 8  # of a row
BETWEEN: Final = "},{"
Kind = Literal["row", "unit", "change"]


class Store:
    def __init__(
        self, config: Config, connector: Connector, rows: ms.Entries[Row], applied: ms.Entries[Applied],
        late: ms.Entries[Forgotten], slots: ms.Entries[Forgotten],
    ) -> None:  # fmt: skip
        self.config = config
        self.connector = connector
        self.rows = rows
        self.applied = applied
        self.late = late  # the changes of units that went on without others
        self.slots = slots
        self.slot_ms = slot_ms_of(config)

    # Rows

    def truncated_at(self, table: str) -> int:
        """The position of its last truncation, 0 if it has none."""
        return int(member_texts(self.connector.truncated.text).get(table, 0))

    def known(self, table: str, key: str) -> Version | None:
        return version_of(self.rows.get(row_id(table, key)))

    def row(self, table: str, key: str) -> Row | None:
        return self.rows.get(row_id(table, key))

    def put(
        self, table: str, key: str, version: Version, lsn: int, unit: int, committed_at: int, events: ms.Json = NONE
    ) -> None:  # fmt: skip
        self.rows.put(row_id(table, key), Row(version.text(), unknown_text(version), lsn, unit, committed_at, events))

    def delete(self, table: str, key: str, lsn: int, unit: int, committed_at: int, events: ms.Json = NONE) -> None:
        """And remember that it was deleted: no snapshot brings it back."""
        id = row_id(table, key)
        self.rows.put(id, Row(None, NONE, lsn, unit, committed_at, events))
        self.remember("row", id, committed_at)

    def clear(self, table: str, are_old: Callable[[Row], bool] = lambda row: True) -> None:
        """Forget the rows of a table, or those that `are_old` names. This is the one step that reads all of a table."""
        for id, row in self.rows.items(table_prefix(table)):
            if are_old(row):
                self.rows.delete(id)

    def keys(self, table: str) -> list[str]:
        """Returns the keys of the rows that are there."""
        prefix = table_prefix(table)
        return ["[" + id[len(prefix) :] for id, row in self.rows.items(prefix) if row.columns is not None]

    def write(self, folded: Folded, told: Sequence[Told], unit: int, committed_at: int) -> None:
        """Writes what a unit leaves."""
        for table, truncated in folded.truncated.items():
            self.clear(table)
            positions = {**member_texts(self.connector.truncated.text), table: str(truncated.changes[-1].lsn)}
            self.connector.truncated = object_of(positions)
        events: dict[Entity, list[BusinessEvent]] = {}
        for its in told:
            for entity in its.entities:
                events.setdefault(entity, []).append(its.event)
        written: list[tuple[str, str, Entity, ms.Json]] = [
            (table, key, entity, self._events(table, entity.was, events.get(entity, ())))
            for (table, key), entity in folded.last.items()
        ]
        for table, key, entity, history in written:
            lsn = entity.changes[-1].lsn
            if entity.after is not None and entity.key == key:
                self.put(table, key, entity.after, lsn, unit, committed_at, history)
            else:
                self.delete(table, key, lsn, unit, committed_at, history)

    def _events(self, table: str, key: str, new: Sequence[BusinessEvent]) -> ms.Json:
        """The last events of a row, newest first."""
        row = self.row(table, key)
        if not new:
            return NONE if row is None else row.events
        earlier = [] if row is None or row.events.text == NONE.text else row.events.text[2:-2].split(BETWEEN)
        events = [*[brief(event) for event in reversed(new)], *earlier][:MOST_EVENTS]
        return json_as_is("[{" + BETWEEN.join(events) + "}]")

    def note(self, table: str, key: str, event: BusinessEvent) -> None:
        """An event of a row that it does not change."""
        row = self.row(table, key)
        if row is not None:
            self.rows.put(row_id(table, key), replace(row, events=self._events(table, key, [event])))

    # Memory of a limited time

    def remember(self, kind: Kind, id: str, committed_at: int) -> None:
        """Keeps it until the database's time is the retention after `committed_at`."""
        slot = committed_at // self.slot_ms
        self.slots.put(f"{slot_prefix(slot)}{kind}:{id}", Forgotten(kind))
        if slot != self.connector.last_slot:
            self._begin_slot(slot)

    def remember_unit(self, transaction: str, applied: Applied, committed_at: int) -> None:
        id, slot = applied_id(transaction, self.slot_ms), slot_of(transaction, self.slot_ms)
        self.applied.put(id, applied)
        if slot != committed_at // self.slot_ms:
            self.remember("unit", id, committed_at)
        elif slot != self.connector.last_slot:
            self._begin_slot(slot)

    def applied_unit(self, transaction: str) -> Applied | None:
        return self.applied.get(applied_id(transaction, self.slot_ms))

    def remember_change(self, id: str, committed_at: int) -> None:
        self.late.put(id, Forgotten("change"))
        self.remember("change", id, committed_at)

    def _begin_slot(self, slot: int) -> None:
        """And forget what was remembered for long enough."""
        connector = self.connector
        until = connector.committed_at - self.config.duplicate_retention_ms
        slots = [int(number) for number in parse(connector.slots.text)]
        due = [number for number in slots if (number + 1) * self.slot_ms <= until]
        for number in due:
            self._forget_slot(slot_prefix(number))
        connector.last_slot = slot
        connector.slots = ms.Json.of([number for number in dict.fromkeys([*slots, slot]) if number not in due])

    def _forget_slot(self, prefix: str) -> None:
        for id in self.slots.ids(prefix):
            kind, _, remembered = id.removeprefix(prefix).partition(":")
            if kind == "row":
                self._forget_row(remembered)
            elif kind == "unit":
                self.applied.delete(remembered)
            else:
                self.late.delete(remembered)
            self.slots.delete(id)
        for id in self.applied.ids(prefix):
            self.applied.delete(id)

    def _forget_row(self, id: str) -> None:
        row = self.rows.get(id)
        if (
            row is not None
            and row.columns is None
            and row.committed_at <= self.connector.committed_at - self.config.duplicate_retention_ms
        ):
            self.rows.delete(id)


def slot_ms_of(config: Config) -> int:
    return max(1, config.duplicate_retention_ms // SLOTS)


def slot_of(unit: str, slot_ms: int) -> int | None:
    """Returns the slot of a unit whose name has its time."""
    number, _, committed_at = unit.partition("@")
    return int(committed_at) // slot_ms if number.isdigit() and committed_at.isdigit() else None


def applied_id(unit: str, slot_ms: int) -> str:
    """Makes the id with its slot, if that is known: then nothing else needs to remember it."""
    slot = slot_of(unit, slot_ms)
    return unit if slot is None else f"{slot_prefix(slot)}{unit}"


def slot_prefix(slot: int) -> str:
    return f"{slot:012d}:"


def brief(event: BusinessEvent) -> str:
    """The members of a JSON object in canonical form. None of its texts contains `BETWEEN`."""
    transaction = "null" if event.transaction_id is None else quote(event.transaction_id)
    return (
        f'"at":{event.committed_at},"certainty":{quote(event.certainty)},"lsn":{event.rows[0].lsn},'
        f'"transactionId":{transaction},"type":{quote(event.type)}'
    )
