"""Folds the changes of a unit: each row once, from its first state to its last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from services.changes.config import Table
from services.changes.records import Change
from services.changes.rows import Version, after_of, key_before, whole_before

Known = Callable[[str, str], Version | None]  # a row as it was before the unit, by table and key
Place = tuple[str, str]  # a table and a key
ALL: Final = ""  # instead of a key


@dataclass(eq=False)
class Entity:
    """A row that a unit changes. `was`: its key before, `key`: its key after; `before_known`: whether `before` says
    what was there, None that there was nothing."""

    table: Table
    was: str
    key: str
    before: Version | None
    before_known: bool
    after: Version | None
    latest: Version | None  # the last one there was, even if it is removed now
    changes: list[Change] = field(default_factory=list)

    @property
    def is_created(self) -> bool:
        return self.before is None and self.before_known and self.after is not None

    @property
    def is_removed(self) -> bool:
        return self.after is None and not (self.before is None and self.before_known)

    @property
    def is_moved(self) -> bool:
        """Whether its key is another one."""
        return self.after is not None and self.was != self.key and not self.is_created

    def is_at(self, key: str) -> bool:
        return self.after is not None and self.key == key


@dataclass
class Truncated:
    """`changes`: the truncation, and those of the table before it."""

    table: Table
    changes: list[Change]


@dataclass
class Folded:
    """`entities`: in the order of their first changes; `last`: at each place that was touched, the last one there. It
    need not be there any more; `effects`: what each change does to which key, None for a deletion, and all keys of the
    table for a truncation (`ALL`)."""

    entities: list[Entity]
    truncated: dict[str, Truncated]
    last: dict[Place, Entity]
    effects: list[tuple[Place, Version | None]]


def position(change: Change) -> tuple[int, int, int]:
    """The place of a change in its unit. The deletion and the creation of a changed key share a position, and so do
    all rows of a COPY."""
    return change.lsn, change.op != "d", change.order


def fold(changes: Sequence[Change], tables: Mapping[str, Table], known: Known) -> Folded:
    """`changes`: in the order of their positions."""
    folding = _Folding(tables, known)
    for change in changes:
        folding.take(change)
    return folding.end()


class _Folding:
    def __init__(self, tables: Mapping[str, Table], known: Known) -> None:
        self.tables = tables
        self.known = known
        self.entities: list[Entity] = []
        self.last: dict[Place, Entity] = {}
        self.moving: dict[tuple[str, str, str], Entity] = {}  # by table, old key and new key
        self.truncated: dict[str, Truncated] = {}
        self.effects: list[tuple[Place, Version | None]] = []

    def take(self, change: Change) -> None:
        table = self.tables[change.table]
        if change.op == "t":
            self._truncate(change, table)
            self.effects.append(((table.name, ALL), None))
        elif change.op == "d":
            entity = self._there(change, table, change.key)
            entity.changes.append(change)
            entity.after = None
            self.effects.append(((table.name, change.key), None))
            if change.other_key:
                self.moving[table.name, change.key, change.other_key] = entity
        else:
            entity = self._written(change, table)
            entity.changes.append(change)
            entity.after = entity.latest = after_of(change, table, entity.latest)
            self.effects.append(((table.name, change.key), entity.after))

    def end(self) -> Folded:
        return Folded(self.entities, self.truncated, self.last, self.effects)

    def _written(self, change: Change, table: Table) -> Entity:
        """The row that a change creates, moves or updates."""
        if change.op == "u":
            return self._there(change, table, change.key)
        if change.other_key:
            entity = self._moved(change, table)
            entity.key = change.key
        else:
            entity = self._new(table, change.key, None, True)
        place = table.name, change.key
        replaced = self.last.get(place)
        if replaced is not None and replaced is not entity and replaced.is_at(change.key):
            replaced.after = None
        self.last[place] = entity
        return entity

    def _moved(self, change: Change, table: Table) -> Entity:
        """The row whose key became that of the change."""
        entity = self.moving.pop((table.name, change.other_key, change.key), None)
        return entity or self._there(change, table, change.other_key)  # its deletion may be missing

    def _there(self, change: Change, table: Table, key: str) -> Entity:
        """The row at a place. There is one, whether it is known or not."""
        place = table.name, key
        entity = self.last.get(place)
        if entity is not None and entity.is_at(key):
            return entity
        before = None if entity is not None or table.name in self.truncated else self.known(*place)
        if before is None:
            before = whole_before(change, table) or (key_before(change, table) if change.op == "d" else None)
        entity = self.last[place] = self._new(table, key, before, before is not None)
        return entity

    def _new(self, table: Table, key: str, before: Version | None, known: bool) -> Entity:
        entity = Entity(table, key, key, before, known, before, before)
        self.entities.append(entity)
        return entity

    def _truncate(self, change: Change, table: Table) -> None:
        own = [entity for entity in self.entities if entity.table is table]
        self.entities = [entity for entity in self.entities if entity.table is not table]
        earlier = self.truncated[table.name].changes if table.name in self.truncated else []
        earlier = [*earlier, *[its for entity in own for its in entity.changes]]
        self.truncated[table.name] = Truncated(table, [*earlier, change])
        for place in [place for place in self.last if place[0] == table.name]:
            del self.last[place]
