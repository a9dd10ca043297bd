"""The step: processes one event (docs/model.md section 3), with one function for each rule of the enrichment.

`t` is the order time of the current event. The step changes a user's state in place. Records to write and timers to set
go to `Effects`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from moneystate.engine.avro import read_bytes, string_bytes
from moneystate.engine.effects import Effects
from moneystate.engine.items import (
    CLEANUP_RANK,
    EVENT_TIME,
    KEY,
    NO_TIME,
    OFFSET,
    PARTITION,
    RANK,
    TIME,
    TIMER_RANK,
    TOPIC,
    VALUE,
    Item,
    UnorderedRecord,
)
from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess
from moneystate.engine.sweep import sweep_time
from services.enrichment import events
from services.enrichment.emit import (
    JOINED,
    LATE,
    LOOKUP_FAILED,
    NO_SESSION,
    OLD,
    SESSION_MISSING,
    emit,
    lineage,
    release,
    release_without_info,
    request,
    resolve,
)
from services.enrichment.events import Money, Reply
from services.enrichment.migrations import rewrite
from services.enrichment.money_ids import pack_id
from services.enrichment.page import COUNTRY, EXPIRES, SOURCE, Page, split_positions
from services.enrichment.rules import Rules
from services.enrichment.source import encode_source, optional
from services.enrichment.state import Forgotten, User, WaitingMoney, encode_forgotten, position_of
from services.enrichment.users import FULL_IDS, Users

# Kinds of work besides the kinds of events.
WAIT_OVER: Final = 100
SWEEP: Final = 101


def source_of(item: Item) -> bytes:
    """The source of values that come from this event."""
    return encode_source(item[TOPIC], item[PARTITION], item[OFFSET], item[EVENT_TIME])


def parse_reply(record: UnorderedRecord) -> Reply:
    _, partition, offset, _, value = record
    return events.parse_reply(value, partition, offset)


class Work:
    """A decoded item. Fields that its kind does not have are empty."""

    def __init__(self, kind: int, user: bytes) -> None:
        self.kind = kind
        self.user = user
        self.money: Money | None = None
        self.session = b""  # SESSION_CREATED: the new session; WAIT_OVER: the session that did not come
        self.country = b""  # SESSION_CREATED: the client's; ADDRESS: the user's residence
        self.birth_year = b""  # BIRTH_DATE
        self.money_id = b""  # WAIT_OVER
        self.position = b""  # WAIT_OVER: the position of the waiting money
        self.request = b""  # FORGET: the request's id
        self.requested_by = b""  # FORGET


def parse(item: Item) -> Work:
    if item[RANK] == TIMER_RANK:
        work = Work(WAIT_OVER, item[KEY])
        work.session, pos = read_bytes(item[VALUE], 0)
        work.money_id, pos = read_bytes(item[VALUE], pos)
        work.position = item[VALUE][pos:]
        return work
    if item[RANK] == CLEANUP_RANK:
        return Work(SWEEP, item[KEY])
    value = item[VALUE]
    kind = events.kind_of(value)
    work = Work(kind, item[KEY])
    if kind <= events.TRANSACTION:
        work.money = events.parse_money(value)
    elif kind == events.SESSION_CREATED:
        work.session, work.country = events.parse_session(value)
    elif kind == events.ADDRESS:
        work.country = events.parse_address(value)
    elif kind == events.FORGET:
        work.request, work.requested_by = events.parse_forget(value)
    else:
        work.birth_year = events.parse_birth_date(value)
    return work


class Enrichment:
    """The processor of the money enrichment (`moneystate.engine.processor.Processor`)."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.users: Users
        self.replies: dict[UnorderedRecord, Reply] = {}
        self.watermark_before = NO_TIME

    def begin(
        self, state: StateAccess, items: Sequence[Item], unordered: Sequence[UnorderedRecord], watermark_before: int
    ) -> list[Work | None]:
        """Loads entries in three requests: users, then their pages, then waiting money that this batch may release."""
        works = [parse(item) for item in items]
        self.watermark_before = watermark_before
        self.replies = {record: parse_reply(record) for record in unordered}
        ids = [work.user for work in works]
        ids.extend([user for _, _, _, user, _ in unordered])
        self.users = Users(state, ids)
        self.users.load_pages(self._pages(works))
        self.users.load_waiting(self._waiting(works))
        return list(works)

    def _waiting(self, works: Sequence[Work]) -> list[tuple[User, bytes]]:
        """The waiting money that sessions, timers and replies of this batch may release, by user and position."""
        wanted: list[tuple[User, bytes]] = []
        users = self.users.by_id
        for work in works:
            if work.kind == events.SESSION_CREATED:
                user = users[work.user]
                positions = user.page(work.session).waiting.get(work.session, b"")
                wanted.extend([(user, position) for position in split_positions(positions)])
            elif work.kind == WAIT_OVER:
                user = users[work.user]
                if user.page(work.session).is_waiting(work.session, work.position):
                    wanted.append((user, work.position))
            elif work.kind == events.FORGET:
                user = users[work.user]
                wanted.extend([(user, position) for position in _waiting_positions(user)])
        for (_, _, _, id, _), reply in self.replies.items():
            user = users[id]
            positions_of_pair = user.page(reply.money_id).open_lookups(reply.money_id, reply.requested_at)
            wanted.extend([(user, position) for position in positions_of_pair])
        return wanted

    def _pages(self, works: Sequence[Work]) -> list[tuple[User, int]]:
        wanted: list[tuple[User, int]] = []
        users = self.users.by_id
        for work in works:
            user = users[work.user]
            if user.depth == 0:
                continue
            if work.money is not None:
                wanted.append((user, user.page_number(work.money.id)))
                wanted.append((user, user.page_number(work.money.money_type)))
                if work.money.session is not None:
                    wanted.append((user, user.page_number(work.money.session)))
            elif work.kind in (SWEEP, events.FORGET):
                wanted.extend([(user, number) for number in range(1 << user.depth)])
            elif work.kind in (events.SESSION_CREATED, WAIT_OVER):
                wanted.append((user, user.page_number(work.session)))
                if work.kind == WAIT_OVER:
                    wanted.append((user, user.page_number(work.money_id)))
        for (_, _, _, id, _), reply in self.replies.items():
            user = users[id]
            wanted.append((user, user.page_number(reply.money_id)))
        return wanted

    def step(self, item: Item, parsed: Work | None, effects: Effects) -> None:
        work = parse(item) if parsed is None else parsed
        user = self.users.by_id[work.user]
        money = work.money
        if money is not None:
            self._money(user, item, money, effects)
        elif work.kind == events.SESSION_CREATED:
            self._session(user, item, work.session, work.country, effects)
        elif work.kind == WAIT_OVER:
            self._wait_over(user, item, work.session, work.position, effects)
        elif work.kind == SWEEP:
            self._sweep(user, item, effects)
        elif work.kind == events.ADDRESS:
            user.country = work.country
            user.country_source = source_of(item)
            user.changed = True
        elif work.kind == events.FORGET:
            self._forget(user, item, work.request, work.requested_by, effects)
        else:
            user.birth_year = work.birth_year
            user.birth_year_source = source_of(item)
            user.changed = True

    def finish(self, effects: Effects) -> list[Change]:
        return self.users.changes()

    # Money

    def _money(self, user: User, item: Item, money: Money, effects: Effects) -> None:
        t = item[TIME]
        source = source_of(item)
        if self._duplicate(user, item, money.id, source, effects):
            effects.count("duplicates")
            return
        late = t > item[EVENT_TIME]
        if late:
            effects.count("late")
        user.changed = True
        types = user.page(money.money_type)
        before = types.type_source(money.money_type)
        first = before is None
        if before is None:
            types.add_type(money.money_type, source)
        sources = (b"\x00" if before is None else optional(before)) + user.info_sources()
        head = money.body + user.info()
        session = money.session
        if session is None:
            emit(effects, user.id, head, None, first, NO_SESSION, lineage(source, sources, b"", b""))
            return
        if not money.old:
            known = user.page(session).sessions.get(session)
            if known is not None and t < known[EXPIRES]:
                body = lineage(source, sources, known[SOURCE], b"")
                emit(effects, user.id, head, known[COUNTRY], first, JOINED, body)
                return
        waiting = WaitingMoney(t, first, head, money.id, session, sources)
        position = position_of(item)
        if money.old or late:
            self._look_up(user, position, waiting, t, OLD if money.old else LATE, effects)
            return
        user.waiting[position] = waiting
        user.page(session).add_waiting(session, position)
        effects.count("waiting")
        effects.hold(t)
        due = t + self.rules.session_wait_ms
        effects.set_timer(due, TIMER_RANK, item, user.id, string_bytes(session) + string_bytes(money.id) + position)

    def _duplicate(self, user: User, item: Item, money_id: bytes, source: bytes, effects: Effects) -> bool:
        """Whether the id was seen within the TTL. If not, records it. A duplicate does not extend the TTL."""
        t = item[TIME]
        ttl = self.rules.dedup_ttl_ms
        page = user.page(money_id)
        packed = pack_id(money_id)
        seen_at = page.seen_at(packed)
        if seen_at != NO_TIME and t < seen_at + ttl:
            return True
        page.drop_ids(t - ttl)
        page.add_id(packed, t, source)
        if page.ids_n >= FULL_IDS:
            self.users.grow(user)
        self._ensure_sweep(user, item, t + ttl, ttl, effects)
        return False

    # Sessions

    def _session(self, user: User, item: Item, session: bytes, country: bytes, effects: Effects) -> None:
        expires = item[EVENT_TIME] + self.rules.session_ttl_ms
        page = user.page(session)
        if expires > item[TIME]:
            known = page.sessions.get(session)
            if known is None or known[EXPIRES] < expires:
                page.sessions[session] = (expires, country, source_of(item))
                page.changed = user.changed = True
                self._ensure_sweep(user, item, expires, self.rules.session_ttl_ms, effects)
        positions = page.waiting.pop(session, b"")
        for position in split_positions(positions):
            waiting = user.waiting[position]
            release(effects, user, position, waiting, country, JOINED, session=source_of(item))
            waiting.removed = True
            page.changed = user.changed = True
            effects.count("waiting", -1)
            effects.let_go(waiting.order_time)

    def _wait_over(self, user: User, item: Item, session: bytes, position: bytes, effects: Effects) -> None:
        page = user.page(session)
        if not page.is_waiting(session, position):
            return  # its session has come
        page.drop_waiting(session, position)
        user.changed = True
        waiting = user.waiting[position]
        effects.count("waiting", -1)
        effects.let_go(waiting.order_time)
        self._look_up(user, position, waiting, item[TIME], SESSION_MISSING, effects)

    # Lookups

    def _look_up(
        self, user: User, position: bytes, waiting: WaitingMoney, t: int, reason: int, effects: Effects
    ) -> None:
        """Requests a lookup. The money waits for the reply to (its id, t). The reply may already be in the state."""
        page = user.page(waiting.money_id)
        if self.rules.lookup:
            request(effects, user, waiting, t, reason)
            reply = _kept_reply(page, waiting.money_id, t)
            if reply is None:
                waiting.requested_at = t
                waiting.reason = reason
                waiting.changed = page.changed = user.changed = True
                user.waiting[position] = waiting
                page.lookups.append((waiting.money_id, t, position))
                effects.count("looking_up")
                effects.hold(waiting.order_time)
                return
            resolve(effects, user, position, waiting, reply)
        else:
            release(effects, user, position, waiting, None, LOOKUP_FAILED)
        waiting.removed = True
        user.changed = True

    def process_unordered(self, record: UnorderedRecord, effects: Effects) -> None:
        """Processes a lookup's reply. It resolves the money that waits for it. If there is none yet, the reply is kept
        until the watermark has passed the time of its request."""
        reply = self.replies[record]
        topic, partition, offset, id, _ = record
        user = self.users.by_id[id]
        page = user.page(reply.money_id)
        positions = page.open_lookups(reply.money_id, reply.requested_at)
        for position in positions:
            waiting = user.waiting[position]
            resolve(effects, user, position, waiting, reply)
            page.close_lookup(position)
            waiting.removed = True
            user.changed = True
            effects.count("looking_up", -1)
            effects.let_go(waiting.order_time)
        if positions or reply.requested_at < self.watermark_before:
            return
        if _kept_reply(page, reply.money_id, reply.requested_at) is not None:
            return  # the first one in the log wins
        page.replies.append(reply)
        page.changed = user.changed = True
        by: Item = (reply.requested_at, CLEANUP_RANK, 0, topic, partition, offset, 0, id, b"")
        self._ensure_sweep(user, by, reply.requested_at, self.rules.session_wait_ms, effects)

    def rewrite(self, entries: Iterator[tuple[bytes, bytes]], version: int) -> list[Change]:
        return rewrite(entries, version)

    # Removal

    def _forget(self, user: User, item: Item, request_id: bytes, requested_by: bytes, effects: Effects) -> None:
        """Erases the user (docs/adr/0006). Money that waits for its session is written without user info. Open lookups
        stay. Replies have no place in the total order, so only the reply itself may decide the output."""
        self.users.load_all_pages(user)
        positions = _waiting_positions(user)
        self.users.load_waiting([(user, position) for position in positions])
        for position in sorted(positions, key=lambda p: (user.waiting[p].order_time, p)):
            waiting = user.waiting[position]
            release_without_info(effects, user, position, waiting)
            waiting.removed = True
            effects.count("waiting", -1)
            effects.let_go(waiting.order_time)
        user.forget(encode_forgotten(Forgotten(request_id, requested_by, item[TIME], source_of(item))))
        self.users.shrink(user)
        effects.count("forgotten")

    def _ensure_sweep(self, user: User, by: Item, expires: int, ttl: int, effects: Effects) -> None:
        """Makes sure that a sweep of the user is scheduled soon after `expires`."""
        self._sweep_at(user, by, sweep_time(user.id, expires, ttl), effects)

    def _sweep_at(self, user: User, by: Item, due: int, effects: Effects) -> None:
        if user.sweep_at == 0 or due < user.sweep_at:
            user.sweep_at = due
            user.changed = True
            effects.set_timer(due, CLEANUP_RANK, by, user.id, b"")

    def _sweep(self, user: User, item: Item, effects: Effects) -> None:
        """Removes items that no later event can use, and schedules the next sweep if any items remain."""
        t = item[TIME]
        if user.sweep_at != t:
            return  # an earlier sweep was scheduled after this one
        self.users.load_all_pages(user)
        user.changed = True
        user.sweep_at = 0
        dues: list[int] = []
        for page in list(user.pages.values()):
            _remove_expired(page, t, t - self.rules.dedup_ttl_ms)
            self._next_dues(user, page, dues)
        if dues:
            self._sweep_at(user, item, min(dues), effects)
        self.users.shrink(user)

    def _next_dues(self, user: User, page: Page, dues: list[int]) -> None:
        """Appends the times at which ids, sessions and replies of a page are next due for removal."""
        rules = self.rules
        if page.ids_n:
            dues.append(sweep_time(user.id, page.first_seen() + rules.dedup_ttl_ms, rules.dedup_ttl_ms))
        if page.sessions:
            first = min([known[EXPIRES] for known in page.sessions.values()])
            dues.append(sweep_time(user.id, first, rules.session_ttl_ms))
        if page.replies:
            first = min([reply.requested_at for reply in page.replies])
            dues.append(sweep_time(user.id, first, rules.session_wait_ms))


def _remove_expired(page: Page, t: int, seen_until: int) -> None:
    page.drop_ids(seen_until)
    expired = [session for session, known in page.sessions.items() if known[EXPIRES] <= t]
    for session in expired:
        del page.sessions[session]
    remaining = [reply for reply in page.replies if reply.requested_at > t]
    if expired or len(remaining) < len(page.replies):
        page.replies = remaining
        page.changed = True


def _kept_reply(page: Page, money_id: bytes, requested_at: int) -> Reply | None:
    for reply in page.replies:
        if reply.money_id == money_id and reply.requested_at == requested_at:
            return reply
    return None


def _waiting_positions(user: User) -> list[bytes]:
    """The positions of all money that waits for its session, from the loaded pages."""
    all_positions: list[bytes] = []
    for page in user.pages.values():
        for positions in page.waiting.values():
            all_positions.extend(split_positions(positions))
    return all_positions
