"""Wait mode: what a unit leaves open waits for the units that follow.

A created link waits for rows that it refers to and that are not known, a created row for a link to it, a removed link
for the same student's next created link. What waits takes part in a later unit as if it belonged to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import moneystate as ms
from services.changes.apply import Applying
from services.changes.config import Config, Reference
from services.changes.fold import Entity, Folded, Place, fold, position
from services.changes.happened import About, Teller, Told, course_of, student_of
from services.changes.keys import key_in
from services.changes.records import NONE, Change, Connector, Ids, Turn, Waiting, Waits
from services.changes.rows import Version, referred, row_id, unknown_text, version_in
from services.changes.transactions import queue_id


@dataclass
class Matching:
    """A step. `wanted`: ids of waiting links, by the row that they wait for; `gone`: ids of waiting links that were
    removed, by table and student; `turns`: the order in which waits end."""

    ctx: ms.Context[Config]
    timer: ms.Timer
    connector: Connector
    waits: Waits
    applying: Applying
    waiting: ms.Entries[Waiting]
    wanted: ms.Entries[Ids]
    gone: ms.Entries[Ids]
    turns: ms.Entries[Turn]
    brought: dict[Entity, str] = field(default_factory=dict)  # what waits and takes part in the unit, and its id
    taken: set[str] = field(default_factory=set)  # those ids, whatever became of them
    remembered: dict[Place, Version] = field(default_factory=dict)  # rows that removed links referred to

    # Time

    def now(self) -> int:
        """The database's: that of the last unit, and what has passed since it was applied."""
        return self.connector.committed_at + self.ctx.now - self.waits.as_of

    def due(self) -> None:
        self.waits.due = None
        self.tick()

    def tick(self) -> None:
        """End the waits that are over, and come back for the next one."""
        if self.waits.turn_head < self.waits.turn_tail:
            self._end_until(self.now())
        due = self._next_due()
        if due == self.waits.due:
            return
        self.waits.due = due
        if due is None:
            self.ctx.cancel(self.timer)
        else:
            self.ctx.at(self.timer, due)

    def _next_due(self) -> int | None:
        if self.waits.turn_head == self.waits.turn_tail:
            return None
        turn = self.turns[queue_id(self.waits.turn_head)]
        return self.waits.as_of + turn.due + 1 - self.connector.committed_at

    def _end_until(self, now: int) -> None:
        """What waited until before this time waits no more."""
        while self.waits.turn_head < self.waits.turn_tail:
            turn = self.turns[queue_id(self.waits.turn_head)]
            waiting = self.waiting.get(turn.id)
            if waiting is not None and waiting.turn == self.waits.turn_head:
                if turn.due >= now:
                    return
                self._give_up(turn.id, waiting)
            self.turns.delete(queue_id(self.waits.turn_head))
            self.waits.turn_head += 1

    def _give_up(self, id: str, waiting: Waiting) -> None:
        if waiting.table not in self.applying.tables:  # the configuration has lost it
            self.waiting.delete(id)
            return
        self._forget(id, waiting)
        if waiting.changes[-1].lsn > self.applying.store.truncated_at(waiting.table):
            self.applying.effects.tell(waiting.event)
            self.applying.store.note(waiting.table, waiting.key, waiting.event)

    # Units

    def unit(self, changes: Sequence[Change], committed_at: int) -> int:
        """Gives its number."""
        self._end_until(committed_at)
        self.brought, self.taken, self.remembered = {}, set(), {}  # a step can apply several units
        connector, store = self.connector, self.applying.store
        connector.units += 1
        connector.committed_at, self.waits.as_of = max(connector.committed_at, committed_at), self.ctx.now
        folded = fold(sorted(changes, key=position), self.applying.tables, store.known)
        own = Folded(list(folded.entities), folded.truncated, dict(folded.last), folded.effects)
        self._merge(folded)
        self._join(folded)
        happened = Teller(self.ctx.rules, About("WAIT", None, committed_at), folded, self._known).tell()
        self._vanish(folded, happened.told)
        emitted = [told for told in happened.told if not self._holds(told, committed_at)]
        for told in emitted:
            self._tell(told)
        if happened.unchanged:
            self.ctx.count("unchanged", happened.unchanged)
        self.applying.effects.rows_of(own, store, committed_at)
        store.write(own, emitted, connector.units, committed_at)
        for told in emitted:
            self._note(told, own)
        return connector.units

    def _merge(self, folded: Folded) -> None:
        """Rows that wait as created, and that the unit changes."""
        for entity in folded.entities:
            id = created_id(entity.table.name, entity.was)
            waiting = self.waiting.get(id)
            if waiting is not None and not entity.is_created:
                entity.before, entity.before_known = None, True
                entity.changes[:0] = waiting.changes
                self._bind(entity, id)

    def _bind(self, entity: Entity, id: str) -> None:
        self.brought[entity] = id
        self.taken.add(id)

    def _join(self, folded: Folded) -> None:
        """Joins what waits for rows of the unit, or what the unit waits for."""
        for entity in list(folded.entities):
            if not entity.is_created:
                continue
            if entity.table.student is None:
                for id in self._ids(self.wanted, row_id(entity.table.name, entity.key)):
                    link = self._bring(folded, id)
                    if link is not None:
                        self._bring_parents(folded, link)
            else:
                student = referred(entity.after, student_of(entity.table)) or ""
                for id in self._ids(self.gone, gone_id(entity.table.name, student)):
                    self._bring(folded, id)
                self._bring_parents(folded, entity)

    def _bring_parents(self, folded: Folded, link: Entity) -> None:
        for reference, key in references(link):
            if (reference.table, key) not in folded.last:
                self._bring(folded, created_id(reference.table, key))

    def _bring(self, folded: Folded, id: str) -> Entity | None:
        """Treats what waits as if it belonged to the unit."""
        waiting = self.waiting.get(id)
        if waiting is None or waiting.table not in self.applying.tables or id in self.taken:
            return None
        entity = self._entity(waiting)
        folded.entities.insert(0, entity)
        if waiting.created:
            folded.last[waiting.table, waiting.key] = entity
        else:
            self._remember(waiting)
        self._bind(entity, id)
        return entity

    def _remember(self, waiting: Waiting) -> None:
        """The course of a link that was removed may be gone by now."""
        table = self.applying.tables[waiting.table]
        shown = {student_of(table).table: waiting.event.student, course_of(table).table: waiting.event.course}
        for name, row in shown.items():
            key = None if row is None else key_in(row, self.applying.tables[name])
            if row is not None and key is not None:
                self.remembered[name, key] = version_in(row, NONE)

    # Telling and waiting

    def _known(self, table: str, key: str) -> Version | None:
        return self.applying.store.known(table, key) or self.remembered.get((table, key))

    def _holds(self, told: Told, committed_at: int) -> bool:
        """Whether the event waits. If it does, it is kept."""
        own = told.own
        id = None if own is None else self._id_of_wait(told, own)
        if own is None or id is None:
            return False
        self._sign(told, own)
        row = own.before if own.after is None else own.after
        assert row is not None
        waiting = Waiting(
            own.table.name, own.key, own.after is not None, row.text(), unknown_text(row), told.event, told.changes,
            self._turn_of(own, id, committed_at),
        )  # fmt: skip
        self.waiting.put(id, waiting)
        self._enlist(id, own, told.event.missing)
        for entity in told.entities:
            if entity is not own:
                self._forget_entity(entity)
        return True

    def _turn_of(self, own: Entity, id: str, committed_at: int) -> int:
        """What waits already waits no longer than before."""
        old_id = self.brought.pop(own, "")
        old = self.waiting.get(old_id) if old_id else None
        if old is not None:
            self._forget(old_id, old)
            self.turns.put(queue_id(old.turn), Turn(id, self.turns[queue_id(old.turn)].due))
            return old.turn
        number = self.waits.turn_tail
        self.waits.turn_tail += 1
        self.waits.last_due = max(self.waits.last_due, committed_at + self.ctx.rules.wait_ms)
        self.turns.put(queue_id(number), Turn(id, self.waits.last_due))
        return number

    def _id_of_wait(self, told: Told, own: Entity) -> str | None:
        names, type = self.ctx.rules.names, told.event.type
        if own.table.student is None:
            return created_id(own.table.name, own.key) if type == names.created else None
        if type == names.enroll and own.is_created and {"student", "course"}.intersection(told.event.missing):
            return created_id(own.table.name, own.key)
        if type == names.withdraw and own.is_removed and referred(own.before, student_of(own.table)):
            return f"-{row_id(own.table.name, own.key)}/{own.changes[-1].lsn}"
        return None

    def _enlist(self, id: str, entity: Entity, missing: Sequence[str]) -> None:
        """Puts it where those that it waits for find it."""
        for entries, place in self._lists(entity, missing):
            entries.put(place, Ids([*self._ids(entries, place), id]))

    def _delist(self, id: str, entity: Entity, missing: Sequence[str]) -> None:
        for entries, place in self._lists(entity, missing):
            ids = [its for its in self._ids(entries, place) if its != id]
            if ids:
                entries.put(place, Ids(ids))
            else:
                entries.delete(place)

    def _lists(self, entity: Entity, missing: Sequence[str]) -> Iterator[tuple[ms.Entries[Ids], str]]:
        """`missing`: of the event. A row that is there lists nothing, so no list is long."""
        if entity.table.student is None:
            return
        if entity.after is None:
            yield self.gone, gone_id(entity.table.name, referred(entity.before, entity.table.student) or "")
        else:
            for name, reference in (("student", student_of(entity.table)), ("course", course_of(entity.table))):
                key = referred(entity.after, reference)
                if name in missing and key:
                    yield self.wanted, row_id(reference.table, key)

    def _tell(self, told: Told) -> None:
        if told.own is not None:
            self._sign(told, told.own)
        for entity in told.entities:
            self._forget_entity(entity)
        self.applying.effects.tell(told.event)

    def _sign(self, told: Told, own: Entity) -> None:
        """The transaction and the time are those of its own row."""
        last = [change for change in own.changes if change.table == own.table.name][-1]
        told.event.transaction_id, told.event.committed_at = last.written_by or None, last.committed_at

    def _note(self, told: Told, own: Folded) -> None:
        """Notes the events in the history of rows that the unit itself does not write."""
        for entity in told.entities:
            if (entity.table.name, entity.key) not in own.last:
                self.applying.store.note(entity.table.name, entity.key, told.event)

    def _vanish(self, folded: Folded, told: Sequence[Told]) -> None:
        """Removes what waited, and is gone without an event."""
        left = {entity for its in told for entity in its.entities}
        for entity in folded.entities:
            if entity not in left:
                self._forget_entity(entity)

    def _forget_entity(self, entity: Entity) -> None:
        id = self.brought.pop(entity, None)
        waiting = None if id is None else self.waiting.get(id)
        if id is not None and waiting is not None:
            self._forget(id, waiting)

    def _forget(self, id: str, waiting: Waiting) -> None:
        self._delist(id, self._entity(waiting), waiting.event.missing)
        self.waiting.delete(id)

    def _entity(self, waiting: Waiting) -> Entity:
        row = version_in(waiting.row, waiting.unknown)
        before, after = (None, row) if waiting.created else (row, None)
        table = self.applying.tables[waiting.table]
        return Entity(table, waiting.key, waiting.key, before, True, after, row, list(waiting.changes))

    def _ids(self, entries: ms.Entries[Ids], place: str) -> list[str]:
        listed = entries.get(place)
        return [] if listed is None else list(listed.ids)


def references(link: Entity) -> Iterator[tuple[Reference, str]]:
    """The rows that a link refers to, with their keys."""
    for reference in (student_of(link.table), course_of(link.table)):
        key = referred(link.after, reference)
        if key:
            yield reference, key


def created_id(table: str, key: str) -> str:
    return f"+{row_id(table, key)}"


def gone_id(table: str, student: str) -> str:
    return row_id(table, student)
