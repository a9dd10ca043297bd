"""What each transaction of the model database meant, told from which rows it changed and not from its log.

It knows a row under all of its keys. So a link that follows its student's new key has the same student.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.reference.changes.database import KEYS, LINKS, Columns, Committed, Row, key_columns

Event = dict[str, Any]


@dataclass
class Truth:
    """`unchanged`: how many updates left their rows as they were."""

    events: list[Event] = field(default_factory=list)
    unchanged: int = 0


@dataclass
class Touched:
    """A row that a transaction changed. `first`, `last`: places in its log."""

    uid: int
    table: str
    before: Row | None
    after: Row | None
    first: int
    last: int
    refs: list[tuple[str, str, int]]


def truth_of(committed: Committed, full_certainty: str = "TRANSACTION") -> Truth:
    return _Teller(committed, full_certainty).tell()


class _Teller:
    def __init__(self, committed: Committed, certainty: str) -> None:
        self.committed = committed
        self.certainty = certainty
        self.made: list[tuple[tuple[int, int], Event]] = []
        self.truth = Truth()
        self.touched = self._touched()

    def tell(self) -> Truth:
        rows = list(self.touched.values())
        for table in LINKS:
            self._links([row for row in rows if row.table == table])
        self._absorb()
        for row in rows:
            if row.table in ("student", "course"):
                self._other(row)
        self.made.sort(key=lambda made: made[0])
        self.truth.events = [event for _, event in self.made]
        return self.truth

    def _touched(self) -> dict[int, Touched]:
        """Without those that a truncation took, and of the others what came after it."""
        committed, touched = self.committed, dict[int, Touched]()
        log = committed.transaction.log
        for place, logged in enumerate(log):
            ref = (logged.table, logged.op, logged.lsn)
            if logged.op == "t":
                places = [at for at in range(place + 1) if log[at].table == logged.table]
                refs = [(log[at].table, log[at].op, log[at].lsn) for at in places]
                truncated = [made for made in self.made if made[1]["table"] == logged.table]
                self.made = [made for made in self.made if made not in truncated]  # one tells all of them
                self._made(places[0], "truncated", logged.table, refs)
                touched = {uid: row for uid, row in touched.items() if row.table != logged.table}
            elif logged.uid in touched:
                touched[logged.uid].last = place
                touched[logged.uid].refs.append(ref)
            elif logged.table in ("student", "course", *LINKS):
                before_it, after = committed.before[logged.uid], committed.after.get(logged.uid)
                touched[logged.uid] = Touched(
                    logged.uid, logged.table, before_it, None if after is None else after[1], place, place, [ref]
                )
        return touched

    def _links(self, rows: list[Touched]) -> None:
        created = [row for row in rows if row.before is None and row.after is not None]
        removed = sorted((r for r in rows if r.before is not None and r.after is None), key=lambda row: row.last)
        for row in rows:
            if row.before is not None and row.after is not None:  # under any key
                self._updated_link(row, row.before, row.after)
        for new in list(created):
            assert new.after is not None
            student = new.after.refers_to["student"]
            old = next((its for its in removed if its.before and its.before.refers_to["student"] == student), None)
            if old is not None and student is not None:
                removed.remove(old)
                created.remove(new)
                self._change([old, new], old.before, new.after)
        for row in removed:
            self._withdraw(row)
        for row in created:
            self._enroll(row)

    def _updated_link(self, row: Touched, before: Row, after: Row) -> None:
        if before.refers_to["student"] != after.refers_to["student"]:
            self._withdraw(row)
            self._enroll(row)
        elif before.refers_to["course"] != after.refers_to["course"]:
            self._change([row], before, after)
        else:
            self._other(row, besides=("student_id", "course_id"))

    def _enroll(self, row: Touched) -> None:
        self._made(
            row.first, "enroll", row.table, row.refs, _row=row, student=self._parent(row.after, "student"),
            course=self._parent(row.after, "course"), link=_columns(row.after),
        )  # fmt: skip

    def _withdraw(self, row: Touched) -> None:
        self._made(
            row.first, "withdraw", row.table, row.refs, student=self._parent(row.before, "student"),
            course=self._parent(row.before, "course"), link=_columns(row.before),
        )  # fmt: skip

    def _change(self, rows: list[Touched], before: Row | None, after: Row | None) -> None:
        first = min(row.first for row in rows)
        refs = [ref for row in rows for ref in row.refs]
        self._made(
            first, "change", rows[0].table, refs, student=self._parent(after, "student"),
            to=self._parent(after, "course"), link=_columns(after), **{"from": self._parent(before, "course")},
        )  # fmt: skip

    def _other(self, row: Touched, besides: tuple[str, ...] = ()) -> None:
        before, after = _columns(row.before), _columns(row.after)
        if before is None and after is not None:
            self._made(row.first, "created", row.table, row.refs, after=after)
        elif after is None and before is not None:
            self._made(row.first, "deleted", row.table, row.refs, before=before)
        elif before is not None and after is not None:
            changed = sorted(name for name in after if before[name] != after[name])
            if not changed:
                self.truth.unchanged += 1
            elif set(changed) - set(besides):
                moved = key_columns(row.table, before) != key_columns(row.table, after)
                parents = {} if not besides else {p: self._parent(row.after, p) for p in ("student", "course")}
                self._made(
                    row.first, "updated", row.table, row.refs, before=before, after=after,
                    changed=[*(["key"] if moved else []), *changed], **parents,
                )  # fmt: skip

    def _absorb(self) -> None:
        """The first enroll that refers to a created row tells its creation, too."""
        enrolls = sorted((made for made in self.made if made[1]["type"] == "enroll"), key=lambda made: made[0])
        for place, event in enrolls:
            link: Touched = event.pop("_row")
            assert link.after is not None
            for uid in link.after.refers_to.values():
                parent = self.touched.get(uid or 0)
                if parent is not None and parent.before is None:
                    del self.touched[parent.uid]
                    parent.table = ""  # it is told
                    event["rows"] = self._in_order([*event["rows"], *parent.refs])
                    self.made.remove((place, event))
                    place = min(place, (parent.first, 0))
                    self.made.append((place, event))

    def _parent(self, row: Row | None, table: str) -> Columns | None:
        uid = None if row is None else row.refers_to[table]
        if uid is None:
            return None
        if uid in self.committed.after:
            return self.committed.after[uid][1].columns
        return _columns(self.committed.before[uid])

    def _made(self, place: int, type: str, table: str, refs: list[tuple[str, str, int]], **fields: Any) -> None:
        committed = self.committed
        event: Event = {
            "type": type, "certainty": self.certainty, "transaction": str(committed.transaction.id),
            "at": committed.at, "table": table, "rows": self._in_order(refs), **fields,
        }  # fmt: skip
        self.made.append(((place, len(self.made)), event))

    def _in_order(self, refs: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        return sorted(refs, key=lambda ref: (ref[2], ref[1] != "d"))


def _columns(row: Row | None) -> Columns | None:
    return None if row is None else row.columns


def root_key(event: Event) -> str:
    """The key of its record."""
    student = event.get("student")
    if student is not None:
        return f'["student",{student["id"]}]'
    table, shown = event["table"], event.get("link") or event.get("after") or event.get("before")
    if shown is None:
        return f'["{table}"]'
    return f'["{table}",' + ",".join(str(shown[name]) for name in KEYS[table]) + "]"
