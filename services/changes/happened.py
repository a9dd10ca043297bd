"""What happened in a unit: its rows, folded, become events."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import moneystate as ms
from services.changes.config import Config, Reference, Table
from services.changes.fold import Entity, Folded, Known, Truncated, fold, position
from services.changes.parents import Parents
from services.changes.records import BusinessEvent, Certainty, Change, RowRef
from services.changes.rows import KEY, NOTHING, Version, changed_columns, referred

UNCHANGED: Final = "unchanged"


@dataclass(frozen=True)
class About:
    """Holds what all events of a unit share. `transaction`: as the database names it, None where there is none."""

    certainty: Certainty
    transaction: str | None
    committed_at: int


@dataclass
class Told:
    """An event, and the rows that it is about. `own`: of its table, None of a truncation."""

    event: BusinessEvent
    entities: list[Entity]
    changes: list[Change]

    @property
    def own(self) -> Entity | None:
        """The last one of a link that was removed and created again."""
        return next((its for its in reversed(self.entities) if its.table.name == self.event.table), None)


@dataclass
class Happened:
    """`unchanged`: how many rows an update left as they were."""

    told: list[Told] = field(default_factory=list)
    unchanged: int = 0


@dataclass
class Link:
    """A link that was created or removed, and the key of its student; None: not known."""

    entity: Entity
    student: str | None


class Teller:
    """Tells what happened in one unit."""

    def __init__(self, config: Config, about: About, folded: Folded, known: Known) -> None:
        self.config = config
        self.about = about
        self.folded = folded
        self.parents = Parents(folded, known)
        self.absorbed: set[Entity] = set()
        self.happened = Happened()

    def tell(self) -> Happened:
        for truncated in self.folded.truncated.values():
            self._truncated(truncated)
        links = [entity for entity in self.folded.entities if entity.table.student is not None]
        for table in self.config.tables:
            self._links([entity for entity in links if entity.table.name == table.name], table)
        self._absorb()
        for entity in self.folded.entities:
            if entity.table.student is None and entity not in self.absorbed:
                self._row(entity)
        self.happened.told.sort(key=lambda told: position(told.changes[0]))
        return self.happened

    def updated(self, entity: Entity) -> list[BusinessEvent]:
        """Whatever else it is."""
        self._row(entity)
        return [told.event for told in self.happened.told]

    def late(self, change: Change, entity: Entity | None) -> BusinessEvent:
        """A change whose unit was applied without it; None: it says nothing of a row."""
        event = self._event(self.config.names.late, change.table)
        event.rows = refs([change])
        if entity is None:
            return event
        row = entity.before if entity.after is None else entity.after
        if entity.after is None:
            event.before = self._shown(event, "before", row)
        else:
            event.after = self._shown(event, "after", row)
        if entity.table.student is not None:
            self._attach(event, "student", student_of(entity.table), row)
            self._attach(event, "course", course_of(entity.table), row)
        return event

    # Links

    def _links(self, links: Sequence[Entity], table: Table) -> None:
        created: list[Link] = []
        removed: list[Link] = []
        for entity in links:
            if entity.is_created:
                created.append(Link(entity, referred(entity.after, student_of(table))))
            elif entity.is_removed:
                removed.append(Link(entity, self._student_before(entity)))
            elif entity.after is not None:
                self._updated_link(entity)
        removed.sort(key=lambda link: position(link.entity.changes[-1]))
        for old, new in pairs(removed, created):
            self._change([old.entity, new.entity], old.entity.before, new.entity.after)
        for link in removed:
            self._withdraw(link.entity)
        for link in created:
            self._enroll(link.entity)

    def _student_before(self, entity: Entity) -> str | None:
        key = referred(entity.before, student_of(entity.table))
        return key if key is None else self.parents.now(student_of(entity.table).table, key)

    def _updated_link(self, entity: Entity) -> None:
        table, before, after = entity.table, entity.before, entity.after
        if before is None or before.partial:
            self._row(entity)
        elif self._differs(student_of(table), before, after):
            self._withdraw(entity)
            self._enroll(entity)
        elif self._differs(course_of(table), before, after):
            self._change([entity], before, after)
        elif self._has_own_changes(entity):
            self._row(entity)
        elif not changed_columns(before, after or before):
            self.happened.unchanged += 1

    def _differs(self, reference: Reference, before: Version, after: Version | None) -> bool:
        """Whether it refers to another row, not to the same one under a changed key."""
        old, new = referred(before, reference), referred(after, reference)
        return old != new and (old is None or self.parents.now(reference.table, old) != new)

    def _has_own_changes(self, entity: Entity) -> bool:
        """Whether more changed than the keys of the rows that it refers to."""
        assert entity.before is not None
        assert entity.after is not None
        references = {*student_of(entity.table).columns, *course_of(entity.table).columns}
        return any(name not in references for name in changed_columns(entity.before, entity.after))

    def _enroll(self, entity: Entity) -> None:
        event = self._event(self.config.names.enroll, entity.table.name)
        self._attach(event, "student", student_of(entity.table), entity.after)
        self._attach(event, "course", course_of(entity.table), entity.after)
        event.link = self._shown(event, "link", entity.after)
        self._tell(event, [entity])

    def _withdraw(self, entity: Entity) -> None:
        event = self._event(self.config.names.withdraw, entity.table.name)
        self._attach_before(event, "student", student_of(entity.table), entity.before)
        self._attach_before(event, "course", course_of(entity.table), entity.before)
        event.link = self._shown(event, "link", entity.before)
        self._tell(event, [entity])

    def _change(self, entities: list[Entity], before: Version | None, after: Version | None) -> None:
        table = entities[0].table
        event = self._event(self.config.names.change, table.name)
        self._attach(event, "student", student_of(table), after)
        self._attach_before(event, "from", course_of(table), before)
        self._attach(event, "to", course_of(table), after)
        event.link = self._shown(event, "link", after)
        self._tell(event, entities)

    # Other rows

    def _row(self, entity: Entity) -> None:
        """A row that is created, updated or deleted, and that no other event tells."""
        names, table, before, after = self.config.names, entity.table, entity.before, entity.after
        if after is None and entity.is_removed:
            event = self._event(names.deleted, table.name)
            event.before = self._shown(event, "before", before)
        elif after is None:
            return  # it was there in the unit only
        elif entity.is_created:
            event = self._event(names.created, table.name)
            event.after = self._shown(event, "after", after)
        else:
            event = self._event(names.updated, table.name)
            if not self._compare(event, entity):
                return
        self._tell(event, [entity])

    def _compare(self, event: BusinessEvent, entity: Entity) -> bool:
        """False: nothing changed."""
        before, after = entity.before, entity.after
        assert after is not None
        if before is None or before.partial:
            event.missing.append("before")
        else:
            event.changed = [*([KEY] if entity.was != entity.key else []), *changed_columns(before, after)]
            if not event.changed and before.unknown <= after.unknown:
                self.happened.unchanged += 1
                return False
            event.before = self._shown(event, "before", before)
        event.after = self._shown(event, "after", after)
        if entity.table.student is not None:
            self._attach(event, "student", student_of(entity.table), after)
            self._attach(event, "course", course_of(entity.table), after)
        return True

    def _truncated(self, truncated: Truncated) -> None:
        event = self._event(self.config.names.truncated, truncated.table.name)
        self.happened.told.append(Told(event, [], sorted(truncated.changes, key=position)))
        event.rows = refs(truncated.changes)

    # Parts of events

    def _event(self, type: str, table: str) -> BusinessEvent:
        about = self.about
        return BusinessEvent(type, about.certainty, self.config.connector, about.transaction, about.committed_at, table)

    def _attach(self, event: BusinessEvent, name: str, reference: Reference, row: Version | None) -> None:
        """The row that a row refers to after the unit."""
        self._put(event, name, reference.table, referred(row, reference))

    def _attach_before(self, event: BusinessEvent, name: str, reference: Reference, row: Version | None) -> None:
        """The row that a row referred to before the unit, under the key that it has now."""
        key = referred(row, reference)
        self._put(event, name, reference.table, self.parents.now(reference.table, key) if key else key)

    def _put(self, event: BusinessEvent, name: str, table: str, key: str | None) -> None:
        if key == NOTHING:
            return
        version = None if key is None else self.parents.get(table, key)
        shown = self._shown(event, name, version)
        if name == "student":
            event.student = shown
        elif name == "course":
            event.course = shown
        elif name == "from":
            event.from_ = shown
        else:
            event.to = shown

    def _shown(self, event: BusinessEvent, name: str, version: Version | None) -> ms.Json | None:
        if version is None:
            event.missing.append(name)
            return None
        if version.partial:
            event.missing.append(name)
        event.missing.extend(f"{name}.{column}" for column in sorted(version.unknown))
        return version.text()

    def _tell(self, event: BusinessEvent, entities: list[Entity]) -> None:
        changes = sorted([change for entity in entities for change in entity.changes], key=position)
        self.happened.told.append(Told(event, entities, changes))
        event.rows = refs(changes)

    def _absorb(self) -> None:
        """The creations of rows that an enroll refers to are part of the first one that does."""
        enrolls = [told for told in self.happened.told if told.event.type == self.config.names.enroll]
        for told in sorted(enrolls, key=lambda told: position(told.changes[0])):
            link = told.entities[0]
            for reference in (student_of(link.table), course_of(link.table)):
                parent = self.folded.last.get((reference.table, referred(link.after, reference) or ""))
                if parent is not None and parent.is_created and parent not in self.absorbed:
                    self.absorbed.add(parent)
                    told.entities.append(parent)
                    told.changes = sorted([*told.changes, *parent.changes], key=position)
            told.event.rows = refs(told.changes)


def happened_in(
    config: Config, tables: Mapping[str, Table], about: About, changes: Iterable[Change], known: Known
) -> tuple[Happened, Folded]:
    """`changes`: of one unit, in any order."""
    folded = fold(sorted(changes, key=position), tables, known)
    return Teller(config, about, folded, known).tell(), folded


def pairs(removed: list[Link], created: list[Link]) -> list[tuple[Link, Link]]:
    """The k-th removed and the k-th created link of each student, which leave the lists."""
    waiting: dict[str, deque[Link]] = defaultdict(deque)
    for link in removed:
        if link.student:
            waiting[link.student].append(link)
    paired: list[tuple[Link, Link]] = []
    rest: list[Link] = []
    for link in created:
        if link.student and waiting[link.student]:
            paired.append((waiting[link.student].popleft(), link))
        else:
            rest.append(link)
    gone = {old.entity for old, _ in paired}
    removed[:] = [link for link in removed if link.entity not in gone]
    created[:] = rest
    return paired


def refs(changes: Iterable[Change]) -> list[RowRef]:
    return [RowRef(change.table, change.op, change.lsn) for change in sorted(changes, key=position)]


def student_of(table: Table) -> Reference:
    assert table.student is not None
    return table.student


def course_of(table: Table) -> Reference:
    assert table.course is not None
    return table.course
