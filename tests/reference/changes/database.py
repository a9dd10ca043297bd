"""A database in memory that logs what PostgreSQL would log, and knows which row is which under every key.

Several transactions may be open. A row that one of them has changed is locked, and so are the rows that it refers to.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Final

Columns = dict[str, Any]
PLACEHOLDER: Final = "__debezium_unavailable_value"
KEYS: Final = {
    "student": ("id",), "course": ("id",), "enrolment": ("id",), "booking": ("student_id", "course_id"),
    "audit": ("id",),
}  # fmt: skip
REFERENCES: Final = {"student": "student_id", "course": "course_id"}  # columns of links, by parent
LINKS: Final = ("enrolment", "booking")
LONG: Final = "bio"  # a column that an update does not log unless it changes it


@dataclass(frozen=True)
class Row:
    """`refers_to`: the rows that a link belongs to, by their tables."""

    columns: Columns
    refers_to: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Logged:
    """A change in the log. `uid`: of its row, 0 for a truncation; `group`: changes of one statement that share a
    position; `newkey`, `oldkey`: of a changed key."""

    table: str
    op: str
    uid: int
    lsn: int
    group: int
    before: Columns | None = None
    after: Columns | None = None
    newkey: Columns | None = None
    oldkey: Columns | None = None


@dataclass
class Transaction:
    """`rows`: as it sees those that it changed, None for one that it deleted; `pinned`: rows that others may not
    remove or move."""

    id: int
    rows: dict[int, Row | None] = field(default_factory=dict)
    tables: dict[int, str] = field(default_factory=dict)
    log: list[Logged] = field(default_factory=list)
    pinned: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Committed:
    """A transaction, with the rows that it changed as they were before, and all rows after it."""

    transaction: Transaction
    end_lsn: int
    last_commit: int
    at: int
    before: dict[int, Row | None]
    after: dict[int, tuple[str, Row]]


class Database:
    def __init__(self, full: tuple[str, ...] = (), at: int = 1_795_339_742_000) -> None:
        self.full = full  # tables whose replica identity is FULL
        self.rows: dict[int, tuple[str, Row]] = {}  # by uid: table and committed row
        self.open: list[Transaction] = []
        self.lsn = 31_290_848
        self.last_commit = 0
        self.at = at
        self.uids, self.ids, self.groups = itertools.count(1), itertools.count(1), itertools.count(1)
        self.numbers = itertools.count(790)

    # Transactions

    def begin(self) -> Transaction:
        transaction = Transaction(next(self.numbers))
        self.open.append(transaction)
        return transaction

    def commit(self, transaction: Transaction, later_ms: int) -> Committed:
        self.lsn += 48
        self.at += later_ms
        before: dict[int, Row | None] = {}
        for uid, row in transaction.rows.items():
            before[uid] = self.rows[uid][1] if uid in self.rows else None
            if row is None:
                self.rows.pop(uid, None)
            else:
                self.rows[uid] = (transaction.tables[uid], row)
        self.open.remove(transaction)
        done = Committed(transaction, self.lsn, self.last_commit, self.at, before, dict(self.rows))
        self.last_commit = self.lsn
        return done

    def visible(self, transaction: Transaction, table: str) -> dict[int, Row]:
        """The rows of a table that a transaction sees and may change."""
        others = set[int]().union(*[o.rows.keys() for o in self.open if o is not transaction])
        rows = {uid: row for uid, (its_table, row) in self.rows.items() if its_table == table and uid not in others}
        for uid, row in transaction.rows.items():
            if transaction.tables[uid] == table:
                rows.pop(uid, None)
                if row is not None:
                    rows[uid] = row
        return rows

    def may_remove(self, transaction: Transaction, uid: int) -> bool:
        return not any(uid in o.pinned for o in self.open if o is not transaction)

    # Statements

    def insert(self, t: Transaction, table: str, columns: Columns, **refers_to: int | None) -> int:
        return self.copy(t, table, [columns], refers_to)[0]

    def copy(self, t: Transaction, table: str, rows: list[Columns], refers_to: dict[str, int | None]) -> list[int]:
        """COPY: all rows have one position."""
        self.lsn += 128
        group, uids = next(self.groups), []
        for columns in rows:
            uid = next(self.uids)
            self._put(t, table, uid, Row(columns, dict(refers_to)))
            t.log.append(Logged(table, "c", uid, self.lsn, group, after=dict(columns)))
            uids.append(uid)
        t.pinned.update(uid for uid in refers_to.values() if uid is not None)
        return uids

    def update(self, t: Transaction, table: str, uid: int, changed: Columns, **refers_to: int | None) -> None:
        """One that changes the key is logged as a deletion and a creation."""
        old = self.visible(t, table)[uid]
        new = Row({**old.columns, **changed}, {**old.refers_to, **refers_to})
        self._put(t, table, uid, new)
        t.pinned.update(its for its in refers_to.values() if its is not None)
        self.lsn += 128
        after, group = self._logged_after(old.columns, new.columns), next(self.groups)
        key, new_key = key_columns(table, old.columns), key_columns(table, new.columns)
        before = dict(old.columns) if table in self.full else None
        if key == new_key:
            t.log.append(Logged(table, "u", uid, self.lsn, group, before, after))
        else:
            gone = before or self._key_alone(table, old.columns)
            t.log.append(Logged(table, "d", uid, self.lsn, group, gone, newkey=new_key))
            t.log.append(Logged(table, "c", uid, self.lsn, group, after=after, oldkey=key))
        if key != new_key and table in REFERENCES:
            self._cascade(t, table, uid, new_key["id"])

    def delete(self, t: Transaction, table: str, uid: int) -> None:
        old = self.visible(t, table)[uid]
        self.lsn += 72
        before = dict(old.columns) if table in self.full else self._key_alone(table, old.columns)
        t.log.append(Logged(table, "d", uid, self.lsn, next(self.groups), before))
        self._put(t, table, uid, None)

    def truncate(self, t: Transaction, table: str) -> None:
        for uid in self.visible(t, table):
            self._put(t, table, uid, None)
        self.lsn += 200
        t.log.append(Logged(table, "t", 0, self.lsn, next(self.groups)))

    def links_to(self, t: Transaction, table: str, uid: int) -> list[tuple[str, int]]:
        return [
            (link, its) for link in LINKS for its, row in self.visible(t, link).items() if row.refers_to[table] == uid
        ]

    def _cascade(self, t: Transaction, table: str, uid: int, id: int) -> None:
        for link, its in self.links_to(t, table, uid):
            self.update(t, link, its, {REFERENCES[table]: id})

    def _put(self, t: Transaction, table: str, uid: int, row: Row | None) -> None:
        t.rows[uid], t.tables[uid] = row, table
        t.pinned.add(uid)

    def _logged_after(self, old: Columns, new: Columns) -> Columns:
        is_left_out = old.get(LONG) is not None and old.get(LONG) == new.get(LONG)
        return {**new, LONG: PLACEHOLDER} if is_left_out else dict(new)

    def _key_alone(self, table: str, columns: Columns) -> Columns:
        return {name: value if name in KEYS[table] else None for name, value in columns.items()}


def key_columns(table: str, columns: Columns) -> Columns:
    return {name: columns[name] for name in KEYS[table]}
