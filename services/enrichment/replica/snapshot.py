"""One version of the enrichment's state (`services.enrichment.replica.reads.Snapshot`)."""

from __future__ import annotations

from moneystate.replica import rows
from moneystate.replica.model import NotFound, Page, Source
from moneystate.replica.rows import text
from moneystate.replica.snapshot import EXAMINED, mark_of, page_of, utf8
from moneystate.replica.snapshot import Snapshot as AnySnapshot
from services.enrichment.replica import decode
from services.enrichment.replica.model import ForgottenView, Known, MoneyView, Pending, Reason, Session, UserView, Where
from services.enrichment.topics import ENRICHED, STREAMS


class Snapshot(AnySnapshot[UserView]):
    def user(self, user_id: str) -> UserView:
        view = self.find(utf8(user_id))
        if view is None:
            raise NotFound(f"{user_id}: there is no such user at this version")
        return view

    def users(
        self, *, prefix: str = "", start: str = "", end: str = "", country: str = "", limit: int, after: bytes | None
    ) -> Page[UserView]:
        self.check()
        index = rows.INDEX + (decode.BY_COUNTRY + rows.escape(country.encode()) if country else rows.BY_USER)
        first = max(index + prefix.encode(), index + start.encode(), mark_of(after, index))
        last = rows.after(index + prefix.encode())
        if end:
            last = min(last, index + end.encode())

        def read(key: bytes) -> UserView | None:
            user = self.find(key[len(index) :])
            if user is None or not country:
                return user
            return user if user.country is not None and user.country.value == country else None

        return page_of(((key, key) for key in self.db.keys(first, last)), read, limit, EXAMINED)

    def session(self, session_id: str) -> tuple[str, Session]:
        self.check()
        id = utf8(session_id)
        for user in self.led_to(decode.BY_SESSION + rows.escape(id)):
            session = decode.find_session(user, id, self.read)
            if session is not None and session.expires_ms > self.watermark_ms:
                return text(user), session
        raise NotFound(f"{session_id}: no user has the session at this version")

    def pending(self, *, reason: Reason | None = None, limit: int, after: bytes | None) -> Page[Pending]:
        """Money that waited at this version, whether or not it still waits now."""

        def read(tail: bytes) -> Pending | None:
            _, user, position = rows.split_waits_at(tail)
            entry = self.read(rows.escape(user) + b"w" + position)
            if entry is None:
                return None
            pending = decode.pending_view(user, position, entry)
            return pending if reason is None or pending.reason is reason else None

        return page_of(self.held(after), read, limit, EXAMINED)

    def money(self, money_id: str) -> MoneyView:
        self.check()
        id = utf8(money_id)
        escaped_id = rows.escape(id)
        for place in self.led_to(decode.BY_WAITING + escaped_id):
            user, user_end = rows.unescape(place, 0)
            entry = self.read(rows.escape(user) + b"w" + place[user_end:])
            if entry is not None:  # an entry's money is always the same
                return _pending_money(user, place[user_end:], entry)
        for key, row in self.db.items(rows.LINEAGE + escaped_id, rows.after(rows.LINEAGE + escaped_id)):
            user = key[1 + len(escaped_id) :]
            if rows.read_signed(row) <= self._header.written_at_ms:
                return _written_money(money_id, user, row)
        for user in self.led_to(decode.BY_SEEN + escaped_id):
            seen = decode.find_seen(user, id, self.read)
            if seen is not None and decode.counts(seen.seen_at_ms, self.watermark_ms, self.rules.get("dedup_ttl_ms")):
                origins = () if seen.source is None else (("money", seen.source),)
                return MoneyView(money_id, text(user), Where.SEEN, None, None, origins)
        raise NotFound(f"{money_id}: the money is unknown at this version")

    def forgotten(self, user_id: str) -> ForgottenView:
        self.check()
        user = utf8(user_id)
        entry = self.read(rows.escape(user) + b"f")
        if entry is None:
            raise NotFound(f"{user_id}: the user was not forgotten")
        return decode.forgotten_view(user, entry)


def _pending_money(user: bytes, position: bytes, entry: bytes) -> MoneyView:
    pending = decode.pending_view(user, position, entry)
    where = Where.WAITING if pending.reason is Reason.WAITING else Where.LOOKING_UP
    origins: list[tuple[str, Source | None]] = [
        ("money", pending.source),
        ("firstOfType", decode.first_of_type(entry)),
        ("birthYear", _source_of(pending.birth_year)),
        ("residentCountryCode", _source_of(pending.country)),
    ]
    known = tuple((role, origin) for role, origin in origins if origin is not None)
    return MoneyView(pending.money_id, pending.user_id, where, pending, None, known)


def _source_of(value: Known | None) -> Source | None:
    return None if value is None else value.source


def _written_money(money_id: str, user: bytes, row: bytes) -> MoneyView:
    """From a row of the index `E` (docs/state.md)."""
    timestamp, partition = rows.read_signed(row), int.from_bytes(row[8:12], "big")
    enriched = Source(STREAMS[ENRICHED], partition, rows.read_long(row, 12), timestamp)
    origins = tuple(decode.lineage_origins(row[20:]))
    return MoneyView(money_id, text(user), Where.PUT_OUT, None, enriched, origins)
