"""Reads the state as of one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from moneystate.replica import range_scan, rows
from moneystate.replica.files import Db
from moneystate.replica.model import Entry, Header, Malformed, Page, Pruned
from moneystate.replica.record import Record, Revision
from moneystate.runtime.replica_model import ServiceReplica

EXAMINED = 2_000  # index rows that one page examines: a page with few matches ends early, with a mark to continue from
ENTRIES_EXAMINED = 500  # the same for a listing of entries, each of up to four rows: about 10 ms

Step = TypeVar("Step")
Item = TypeVar("Item")


class Files(Protocol):
    """The files that a snapshot reads. They advance, and may even change to a rebuilt database; the snapshot does
    not."""

    @property
    def db(self) -> Db | None: ...

    @property
    def record(self) -> Record: ...

    def pruned(self) -> Pruned: ...


class Snapshot:
    def __init__(self, model: ServiceReplica, files: Files, db: Db, revision: Revision, header: Header) -> None:
        self.model = model
        self.files = files
        self.db = db
        self._revision = revision.number
        self.watermark_ms = revision.watermark_ms
        self.rules = revision.rules
        self._header = header

    @property
    def header(self) -> Header:
        return self._header

    @property
    def revision(self) -> int:
        return self._revision

    def entries(self, *, prefix: str = "", limit: int, after: bytes | None) -> Page[Entry]:
        self.check()
        user_prefix = rows.escape_start(utf8(prefix))
        first = mark_of(after, rows.LATEST + user_prefix)[1:]
        past = self.revision < self.files.record.last
        there = range_scan.entries(self.db, self.revision, user_prefix, first, past)
        steps = ((rows.LATEST + entry, (entry, value)) for entry, value in there)
        return page_of(steps, self._entry, limit, ENTRIES_EXAMINED)

    def _entry(self, row: range_scan.EntryRow) -> Entry | None:
        entry, value = row
        if value is None:
            return None
        owner, kind, rest = rows.split_entry(entry)
        return Entry(self.model.join(kind, owner, rest), value)

    def read(self, entry: bytes) -> bytes | None:
        """The entry as it was at this version."""
        row = self.db.get(rows.LATEST + entry)
        if row is not None and rows.read_long(row) <= self.revision:
            return row[rows.LONG_BYTES :]
        if self.revision >= self.files.record.last:
            return None
        for _, was in self.db.items(rows.past_key(entry, self.revision), rows.past_key(entry, 0)):
            until, value = rows.read_past(was)
            return value if self.revision < until else None
        return None

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries of this version whose keys begin with `prefix`, in order."""
        past = self.revision < self.files.record.last
        for entry, value in range_scan.entries(self.db, self.revision, prefix, prefix, past):
            if value is not None:
                yield entry, value

    def check(self) -> None:
        if self.files.db is not self.db or self.revision < self.files.record.floor:
            raise self.files.pruned()


def utf8(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def page_of(
    steps: Iterable[tuple[bytes, Step]], read: Callable[[Step], Item | None], limit: int, examined: int
) -> Page[Item]:
    """A page with the items of the first steps: at most `limit` items, from at most `examined` steps. `steps`: each
    with the mark that leads to it; `read` returns None for a step that is not listed."""
    items: list[Item] = []
    for done, (mark, step) in enumerate(steps):
        if len(items) == limit or done == examined:
            return Page(tuple(items), mark)
        item = read(step)
        if item is not None:
            items.append(item)
    return Page(tuple(items), None)


def mark_of(after: bytes | None, prefix: bytes) -> bytes:
    if after is None:
        return prefix
    if not after.startswith(prefix):
        raise Malformed("after: expected the mark of this listing's previous page")
    return after
