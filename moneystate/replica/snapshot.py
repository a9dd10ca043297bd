"""One version of the state (`moneystate.replica.reads.Snapshot`)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from moneystate.replica import decode, rows, stretch
from moneystate.replica.files import Db
from moneystate.replica.model import (
    Entry,
    ForgottenView,
    Header,
    Known,
    Malformed,
    MoneyView,
    NotFound,
    Page,
    Pending,
    Pruned,
    Reason,
    Session,
    Source,
    UserView,
    Where,
)
from moneystate.replica.record import Record, Revision

EXAMINED = 2_000  # index rows that one page looks at: a page with few matches ends early, and leads on
ENTRIES_EXAMINED = 500  # the same of a listing of entries, each of up to four rows: some 10 ms
ENRICHED = "money-enriched-events"


Step = TypeVar("Step")
Item = TypeVar("Item")


class View(Protocol):
    """What a snapshot reads from: it moves on, to a database that was built anew even, the snapshot does not."""

    @property
    def db(self) -> Db | None: ...

    @property
    def record(self) -> Record: ...

    def pruned(self) -> Pruned: ...


class Snapshot:
    def __init__(self, view: View, db: Db, revision: Revision, header: Header) -> None:
        self.view = view
        self.db = db
        self._revision = revision.number
        self.watermark_ms = revision.watermark_ms
        self.dedup_ttl_ms: int | None = revision.rules.get("dedup_ttl_ms")
        self._header = header

    @property
    def header(self) -> Header:
        return self._header

    @property
    def revision(self) -> int:
        return self._revision

    def user(self, user_id: str) -> UserView:
        found = self.find_user(self._utf8(user_id))
        if found is None:
            raise NotFound(f"{user_id}: nothing is known of the user at this version")
        return found

    def find_user(self, user: bytes, expired_ms: int | None = None) -> UserView | None:
        self._check()
        as_of_ms = self.watermark_ms if expired_ms is None else expired_ms
        return decode.user_view(user, self.read, as_of_ms, self.dedup_ttl_ms)

    def users(
        self, *, prefix: str = "", start: str = "", end: str = "", country: str = "", limit: int, after: bytes | None
    ) -> Page[UserView]:
        self._check()
        index = rows.INDEX + (rows.BY_COUNTRY + rows.escape(country.encode()) if country else rows.BY_USER)
        first = max(index + prefix.encode(), index + start.encode(), mark_of(after, index))
        last = rows.after(index + prefix.encode())
        if end:
            last = min(last, index + end.encode())

        def read(key: bytes) -> UserView | None:
            user = self.find_user(key[len(index) :])
            if user is None or not country:
                return user
            return user if user.country is not None and user.country.value == country else None

        return page_of(((key, key) for key in self.db.keys(first, last)), read, limit, EXAMINED)

    def entries(self, *, prefix: str = "", limit: int, after: bytes | None) -> Page[Entry]:
        self._check()
        of = rows.escape_start(self._utf8(prefix))
        first = mark_of(after, rows.LATEST + of)[1:]
        past = self.revision < self.view.record.last
        there = stretch.entries(self.db, self.revision, of, first, past)
        steps = ((rows.LATEST + entry, (entry, value)) for entry, value in there)
        return page_of(steps, _entry, limit, ENTRIES_EXAMINED)

    def session(self, session_id: str) -> tuple[str, Session]:
        self._check()
        id = self._utf8(session_id)
        for user in self._led_to(rows.BY_SESSION + rows.escape(id)):
            session = decode.find_session(user, id, self.read)
            if session is not None and session.expires_ms > self.watermark_ms:
                return decode.text(user), session
        raise NotFound(f"{session_id}: no user has the session at this version")

    def pending(self, *, reason: Reason | None = None, limit: int, after: bytes | None) -> Page[Pending]:
        """Money that waits now and did at this version, and money that did at this version and does no more."""
        self._check()
        mark = mark_of(after, rows.PENDING)[1:]
        still = self.db.items(rows.PENDING + mark, rows.after(rows.PENDING))
        now = (key[1:] for key, put in still if rows.read_long(put) <= self.revision)
        past = heapq.nsmallest(EXAMINED + 1, self._pended(mark))

        def read(tail: bytes) -> Pending | None:
            _, user, position = rows.split_waits_at(tail)
            entry = self.read(rows.escape(user) + b"w" + position)
            if entry is None:
                return None
            pending = decode.pending_view(user, position, entry)
            return pending if reason is None or pending.reason is reason else None

        return page_of(((rows.PENDING + tail, tail) for tail in heapq.merge(now, past)), read, limit, EXAMINED)

    def _pended(self, mark: bytes) -> Iterator[bytes]:
        """Rows of P that hold this version: one of a class ends within 2^bits revisions of it."""
        db, at = self.db, self.revision
        for bits in range(self.view.record.last.bit_length() + 1):
            start = rows.PENDED + bytes([bits])
            for key, put in db.items(start + rows.long(at + 1), start + rows.long(at + (1 << bits) + 1)):
                tail = key[2 + rows.LONG_BYTES :]
                if rows.read_long(put) <= at and tail >= mark:
                    yield tail

    def money(self, money_id: str) -> MoneyView:
        self._check()
        id = self._utf8(money_id)
        of = rows.escape(id)
        for place in self._led_to(rows.BY_WAITING + of):
            user, at = rows.unescape(place, 0)
            entry = self.read(rows.escape(user) + b"w" + place[at:])
            if entry is not None:  # an entry's money is always the same
                return _waits(user, place[at:], entry)
        for key, row in self.db.items(rows.LINEAGE + of, rows.after(rows.LINEAGE + of)):
            user = key[1 + len(of) :]
            if rows.read_signed(row) <= self._header.written_at_ms:
                return _put_out(money_id, user, row)
        for user in self._led_to(rows.BY_SEEN + of):
            seen = decode.find_seen(user, id, self.read)
            if seen is not None and decode.counts(seen.seen_at_ms, self.watermark_ms, self.dedup_ttl_ms):
                origins = () if seen.source is None else (("money", seen.source),)
                return MoneyView(money_id, decode.text(user), Where.SEEN, None, None, origins)
        raise NotFound(f"{money_id}: the money is not known at this version")

    def forgotten(self, user_id: str) -> ForgottenView:
        self._check()
        user = self._utf8(user_id)
        entry = self.read(rows.escape(user) + b"f")
        if entry is None:
            raise NotFound(f"{user_id}: the user was not forgotten")
        return decode.forgotten_view(user, entry)

    def read(self, entry: bytes) -> bytes | None:
        """The entry as it was at this version."""
        row = self.db.get(rows.LATEST + entry)
        if row is not None and rows.read_long(row) <= self.revision:
            return row[rows.LONG_BYTES :]
        if self.revision >= self.view.record.last:
            return None
        past = rows.PAST + entry
        first = past + rows.long(rows.MAX_LONG - self.revision)
        for _, was in self.db.items(first, past + rows.long(rows.MAX_LONG)):
            until, value = rows.read_past(was)
            return value if self.revision < until else None
        return None

    def _led_to(self, index: bytes) -> Iterator[bytes]:
        """What stands after `index` in keys of the index: users, most often."""
        prefix = rows.INDEX + index
        for key in self.db.keys(prefix, rows.after(prefix)):
            yield key[len(prefix) :]

    def _check(self) -> None:
        if self.view.db is not self.db or self.revision < self.view.record.floor:
            raise self.view.pruned()

    @staticmethod
    def _utf8(name: str) -> bytes:
        return name.encode("utf-8", "surrogatepass")


def page_of(
    steps: Iterable[tuple[bytes, Step]], read: Callable[[Step], Item | None], limit: int, examined: int
) -> Page[Item]:
    """Items of the first steps: at most `limit`, and of no more than `examined` of them. `steps`: each with the mark
    that leads to it; `read`: None: it is not to be listed."""
    found: list[Item] = []
    for done, (mark, step) in enumerate(steps):
        if len(found) == limit or done == examined:
            return Page(tuple(found), mark)
        item = read(step)
        if item is not None:
            found.append(item)
    return Page(tuple(found), None)


def _entry(found: stretch.Found) -> Entry | None:
    entry, value = found
    return None if value is None else Entry(rows.key_of(entry), value)


def mark_of(after: bytes | None, of: bytes) -> bytes:
    if after is None:
        return of
    if not after.startswith(of):
        raise Malformed("after: expected the mark of this listing's page before")
    return after


def _waits(user: bytes, position: bytes, entry: bytes) -> MoneyView:
    pending = decode.pending_view(user, position, entry)
    where = Where.WAITING if pending.reason is Reason.WAITING else Where.LOOKING_UP
    origins: list[tuple[str, Source | None]] = [
        ("money", pending.source),
        ("firstOfType", decode.first_of_type(entry)),
        ("birthYear", _of(pending.birth_year)),
        ("residentCountryCode", _of(pending.country)),
    ]
    known = tuple((role, of) for role, of in origins if of is not None)
    return MoneyView(pending.money_id, pending.user_id, where, pending, None, known)


def _of(value: Known | None) -> Source | None:
    return None if value is None else value.source


def _put_out(money_id: str, user: bytes, row: bytes) -> MoneyView:
    """The row of E."""
    timestamp, partition = rows.read_signed(row), int.from_bytes(row[8:12], "big")
    enriched = Source(ENRICHED, partition, rows.read_long(row, 12), timestamp)
    origins = tuple(decode.lineage_origins(row[20:]))
    return MoneyView(money_id, decode.text(user), Where.PUT_OUT, None, enriched, origins)
