"""Loads the users of a batch, distributes their items over pages, and writes them back, in few requests to the state.

A page has about `PAGE_ITEMS` items. If a user has more items, the number of pages doubles. If a sweep finds the pages
nearly empty, it shrinks again. Either costs one rewrite of the user. The cost of an event grows with the size of its
page. So a user with very many events in one batch gets more pages during the batch.
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
FULL_IDS: Final = 4 * PAGE_ITEMS  # a page with this many ids makes its user grow during a batch


class Users:
    """The users of a batch."""

    def __init__(self, state: StateAccess, ids: Iterable[bytes]) -> None:
        self.state = state
        self.by_id: dict[bytes, User] = {}
        unique_ids = list(dict.fromkeys(ids))
        for id, entry in zip(unique_ids, state.get_many([user_key(id) for id in unique_ids]), strict=True):
            self.by_id[id] = decode_user(id, entry)

    def load_pages(self, wanted: Iterable[tuple[User, int]]) -> None:
        """Loads the pages (user and number) that are not loaded yet, in one request."""
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
        """Loads waiting money (user and position) that is not loaded yet, in one request."""
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
        """All changed entries. Users with too many items for their pages get more pages first."""
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
        """Quadruples the pages of a user that has a page with `FULL_IDS` ids, if all pages are loaded."""
        if len(user.pages) == 1 << user.depth and user.depth + 2 <= MAX_DEPTH:
            _tally(user)
            self.repage(user, user.depth + 2)

    def shrink(self, user: User) -> None:
        """Reduces the number of pages after a removal, if they are nearly empty. All pages must be loaded."""
        _tally(user)
        depth = user.depth
        while depth > 0 and user.items < (PAGE_ITEMS // 4) << depth:
            depth -= 1
        if depth < user.depth:
            self.repage(user, depth)

    def repage(self, user: User, depth: int) -> None:
        """Distributes a user's items over 2^depth pages."""
        self.load_all_pages(user)
        old = user.pages
        new: dict[int, Page] = {number: Page() for number in range(1 << depth)}
        for number, page in new.items():
            page.changed = True
            page.stored = number in old and old[number].stored
        mask = (1 << depth) - 1
        _distribute([old[number] for number in sorted(old)], new, mask)
        for page in new.values():
            page.counted = page.items()
        for number in old:
            if number not in new and old[number].stored:
                removed = Page()
                removed.stored = removed.changed = True
                new[number] = removed
        user.depth = depth
        user.pages = new


def _distribute(old: list[Page], new: dict[int, Page], mask: int) -> None:
    ids: list[tuple[int, bytes, bytes]] = []
    for page in old:
        for money_type, source in page.each_type():
            new[zlib.crc32(money_type) & mask].add_type(money_type, source)
        for session, known in page.sessions.items():
            new[zlib.crc32(session) & mask].sessions[session] = known
        for session, positions in page.waiting.items():
            new[zlib.crc32(session) & mask].waiting[session] = positions
        for lookup in page.lookups:
            new[zlib.crc32(lookup[0]) & mask].lookups.append(lookup)
        for reply in page.replies:
            new[zlib.crc32(reply.money_id) & mask].replies.append(reply)
        ids.extend([(seen_at, money_id, source) for money_id, seen_at, source in page.each_id()])
    ids.sort()  # a page keeps its ids in the order of time, also if it is merged from several
    for seen_at, money_id, source in ids:
        new[zlib.crc32(money_id) & mask].add_id(pack_id(money_id), seen_at, source)


def _tally(user: User) -> None:
    """Updates the user's count of items from its loaded pages."""
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
        in_user_record = user.depth == 0 and number == 0
        if not in_user_record and page.changed and page.items():
            changes.append((page_key(user.id, number), encode_page_entry(page)))
        elif page.stored and (in_user_record or page.changed):
            changes.append((page_key(user.id, number), None))
    for position, money in user.waiting.items():
        if money.removed:
            if money.stored:
                changes.append((waiting_key(user.id, position), None))
        elif money.changed:
            changes.append((waiting_key(user.id, position), encode_waiting(money)))
