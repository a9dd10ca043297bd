"""The rows that a row refers to, as of a unit."""

from __future__ import annotations

from services.changes.fold import Entity, Folded, Known, Place
from services.changes.rows import NOTHING, Version


class Parents:
    def __init__(self, folded: Folded, known: Known) -> None:
        self.folded = folded
        self.known = known
        self.moved: dict[Place, str] = {}
        self.removed: dict[Place, Entity] = {}
        for entity in folded.entities:
            if entity.is_moved:
                self.moved[entity.table.name, entity.was] = entity.key
            elif entity.is_removed:
                self.removed[entity.table.name, entity.was] = entity

    def now(self, table: str, key: str) -> str:
        """The key that the row with this key before the unit has after it."""
        return self.moved.get((table, key), key)

    def get(self, table: str, key: str) -> Version | None:
        """The row as it is after the unit; as it was before if the unit removes it; None: not known."""
        if key == NOTHING:
            return None
        entity = self.folded.last.get((table, key))
        if entity is None:
            return self.known(table, key)
        if entity.is_at(key):
            return entity.after
        removed = self.removed.get((table, key))
        return None if removed is None else removed.before
