"""Loads, pages and writes back the users of one batch, in few round trips.

A page holds about `PAGE_ITEMS` items. A user that outgrows its pages gets twice as many, and fewer again when a sweep
finds them nearly empty; either costs one rewrite of that user. What each event of a user costs grows with its page, so
one that comes with very many events in one batch gets more pages while it is at work.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess
from services.enrichment.money_ids import pack_id
from services.enrichment.page import Page
from services.enrichment.state import (
    User,
    decode_page_entry,
    decode_user,
    decode_waiting,
    encode_page_entry,
    encode_user,
    encode_waiting,
    forgotten_key,
    page_key,
    user_key,
    waiting_key,
)

PAGE_ITEMS: Final = 64
MAX_DEPTH: Final = 16
FULL_IDS: Final = 4 * PAGE_ITEMS


class Users:
    def __init__(self, state: StateAccess, ids: Iterable[bytes]) -> None:
        self.state = state
        self.by_id: dict[bytes, User] = {}
        wanted = list(dict.fromkeys(ids))
        for id, entry in zip(wanted, state.get_many([user_key(id) for id in wanted]), strict=True):
            self.by_id[id] = decode_user(id, entry)

    def load_pages(self, wanted: Iterable[tuple[User, int]]) -> None:
        """The pages, by user and number, that are not there yet, in one round."""
        missing: dict[bytes, tuple[User, int]] = {}
        for user, number in wanted:
            if number not in user.pages:
                missing[page_key(user.id, number)] = (user, number)
        keys = list(missing)
        if not keys:
            return
        for key, entry in zip(keys, self.state.get_many(keys), strict=True):
            user, number = missing[key]
            user.pages[number] = decode_page_entry(entry)

    def load_all_pages(self, user: User) -> None:
        self.load_pages([(user, number) for number in range(1 << user.depth)])

    def load_waiting(self, wanted: Iterable[tuple[User, bytes]]) -> None:
        """Waiting money by user and position, in one round."""
        missing: dict[bytes, tuple[User, bytes]] = {}
        for user, position in wanted:
            if position not in user.waiting:
                missing[waiting_key(user.id, position)] = (user, position)
        keys = list(missing)
        if not keys:
            return
        for key, entry in zip(keys, self.state.get_many(keys), strict=True):
            user, position = missing[key]
            if entry is None:
                raise LookupError(f"waiting money of user {user.id!r} is missing from the state")
            user.waiting[position] = decode_waiting(entry)

    def changes(self) -> list[Change]:
        """Every changed entry. Users that outgrow their pages are repaged first."""
        changes: list[Change] = []
        for user in self.by_id.values():
            if user.changed:
                _tally(user)
                self._fit(user)
                _user_changes(user, changes)
        return changes

    def _fit(self, user: User) -> None:
        depth = user.depth
        while user.items > PAGE_ITEMS << depth and depth < MAX_DEPTH:
            depth += 1
        if depth > user.depth:
            self.repage(user, depth)

    def grow(self, user: User) -> None:
        """For a user with a page of `FULL_IDS`: four times as many pages, where all of them are here."""
        if len(user.pages) == 1 << user.depth and user.depth + 2 <= MAX_DEPTH:
            _tally(user)
            self.repage(user, user.depth + 2)

    def shrink(self, user: User) -> None:
        """After a removal, all pages loaded: as many pages as are worth it."""
        _tally(user)
        depth = user.depth
        while depth > 0 and user.items < (PAGE_ITEMS // 4) << depth:
            depth -= 1
        if depth < user.depth:
            self.repage(user, depth)

    def repage(self, user: User, depth: int) -> None:
        self.load_all_pages(user)
        old = user.pages
        fresh: dict[int, Page] = {number: Page() for number in range(1 << depth)}
        for number, page in fresh.items():
            page.changed = True
            page.stored = number in old and old[number].stored
        mask = (1 << depth) - 1
        _spread([old[number] for number in sorted(old)], fresh, mask)
        for page in fresh.values():
            page.counted = page.items()
        for number in old:
            if number not in fresh and old[number].stored:
                gone = Page()
                gone.stored = gone.changed = True
                fresh[number] = gone
        user.depth = depth
        user.pages = fresh


def _spread(old: list[Page], fresh: dict[int, Page], mask: int) -> None:
    ids: list[tuple[int, bytes, bytes]] = []
    for page in old:
        for money_type, source in page.each_type():
            fresh[zlib.crc32(money_type) & mask].add_type(money_type, source)
        for session, known in page.sessions.items():
            fresh[zlib.crc32(session) & mask].sessions[session] = known
        for session, positions in page.waiting.items():
            fresh[zlib.crc32(session) & mask].waiting[session] = positions
        for lookup in page.lookups:
            fresh[zlib.crc32(lookup[0]) & mask].lookups.append(lookup)
        for reply in page.replies:
            fresh[zlib.crc32(reply.money_id) & mask].replies.append(reply)
        ids.extend([(seen_at, money_id, source) for money_id, seen_at, source in page.each_id()])
    ids.sort()  # pages that become one keep their ids in the order of time
    for seen_at, money_id, source in ids:
        fresh[zlib.crc32(money_id) & mask].add_id(pack_id(money_id), seen_at, source)


def _tally(user: User) -> None:
    """Bring the user's count of items up to date with its loaded pages."""
    for page in user.pages.values():
        n = page.items()
        user.items += n - page.counted
        page.counted = n


def _user_changes(user: User, changes: list[Change]) -> None:
    if user.items or user.birth_year is not None or user.country is not None:
        changes.append((user_key(user.id), encode_user(user)))
    elif user.stored:
        changes.append((user_key(user.id), None))
    if user.forgotten:
        changes.append((forgotten_key(user.id), user.forgotten))
    for number, page in user.pages.items():
        inside = user.depth == 0 and number == 0
        if not inside and page.changed and page.items():
            changes.append((page_key(user.id, number), encode_page_entry(page)))
        elif page.stored and (inside or page.changed):
            changes.append((page_key(user.id, number), None))
    for position, money in user.waiting.items():
        if money.gone:
            if money.stored:
                changes.append((waiting_key(user.id, position), None))
        elif money.changed:
            changes.append((waiting_key(user.id, position), encode_waiting(money)))
