"""Paging: however much a user has, every entry stays small, a batch rewrites what it touches, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine.items import NO_TIME
from moneystate.engine.state import MemoryState
from services.enrichment.events import Reply
from services.enrichment.money_ids import pack_id
from services.enrichment.page import POSITION_BYTES, Lookup
from services.enrichment.state import User, decode_page_entry, decode_user
from services.enrichment.users import FULL_IDS, PAGE_ITEMS, Users
from tests.budget import examples
from tests.enrichment.by_hand import BY_HAND, leftovers
from tests.enrichment.stories import LONG_AFTER, RULES, Story

LARGEST = 16_384
THOUSANDS = 3_000


def largest(story: Story) -> int:
    return max(len(entry) for state in story.sim.states for key, entry in state.entries.items() if key[:1] in b"upw")


def changed(story: Story) -> list[bytes]:
    """Keys of what the last batches changed; cleared by reading."""
    keys = [key for key, _ in story.sim.changes]
    story.sim.changes.clear()
    return keys


@pytest.fixture(scope="module")
def hot() -> Story:
    """A user with thousands of ids, types and sessions, and money that waits for other thousands of sessions."""
    story = Story(core=BY_HAND)
    for n in range(THOUSANDS):
        time_s = n * 10 / THOUSANDS
        story.session(f"session-{n:06}", time_s)
        story.money(f"money-{n:06}", time_s, f"missing-{n:06}", moneyType=f"type-{n:06}")
        if n % 300 == 299:
            story.play(time_s)
    story.play(11)
    return story


def test_a_user_with_thousands_of_items_has_only_small_entries(hot: Story) -> None:
    assert hot.count("waiting") == THOUSANDS
    assert largest(hot) < LARGEST


def test_a_batch_rewrites_only_the_pages_that_it_touches(hot: Story) -> None:
    changed(hot)
    hot.money("one-more", 12, "missing-one-more", moneyType="type-one-more")
    hot.play(13)
    keys = changed(hot)
    assert sorted(key[:1] for key in keys)[-2:] == [b"u", b"w"]
    assert 1 <= len([key for key in keys if key[:1] == b"p"]) <= 3


def test_a_duplicate_rewrites_nothing(hot: Story) -> None:
    changed(hot)
    hot.money("money-000007", 14, "x")
    hot.play(15)
    assert changed(hot) == []


def test_all_of_it_is_still_known(hot: Story) -> None:
    hot.money("m", 16, "session-002999", moneyType="type-001234")
    hot.play(17)
    assert hot.out() == [("m", "JOINED")]
    assert not hot.values()[0]["firstOccurrence"]


def test_what_expires_leaves_no_trace_of_a_large_user_but_its_types_and_open_lookups(hot: Story) -> None:
    hot.play(LONG_AFTER)
    left = leftovers(hot.sim)
    assert {name: n for name, n in left.items() if name in ("ids", "sessions", "slots")} == {}
    assert left["entries w"] == left["lookups"] == hot.count("looking_up") > THOUSANDS  # no reply came: they stay
    assert "waiting" not in left
    assert largest(hot) < LARGEST


def positions_of_one(story: Story) -> int:
    """How much money stands in the item of the session `one`, the only one that any waits for."""
    size = 0
    for state in story.sim.states:
        for key, entry in state.entries.items():
            if key[:1] == b"u":
                pages = list(decode_user(key[1:], entry).pages.values())
            else:
                pages = [decode_page_entry(entry)] if key[:1] == b"p" else []
            size += sum(len(page.waiting.get(b"one", b"")) for page in pages)
    return size // POSITION_BYTES


def test_money_that_waits_for_one_session_is_one_item_of_13_bytes_each() -> None:
    """The limit that docs/state.md states: what arrives within the session wait, here 30 s, for one session."""
    story = Story(RULES, core=BY_HAND)
    for n in range(THOUSANDS):
        story.money(f"money-{n:06}", n * 90 / THOUSANDS, "one")  # one every 30 ms
        if n % 300 == 299:
            story.play(n * 90 / THOUSANDS)
            within_the_wait = 30_000 // 30
            assert positions_of_one(story) == story.count("waiting") <= within_the_wait
            assert largest(story) < within_the_wait * POSITION_BYTES + LARGEST
    assert story.count("waiting") > 900
    story.play(LONG_AFTER)
    assert (positions_of_one(story), story.count("waiting")) == (0, 0)


def test_entries_stay_small_when_much_money_of_one_session_is_looked_up() -> None:
    story = Story(RULES, core=BY_HAND)
    for n in range(THOUSANDS):
        story.money(f"money-{n:06}", n / THOUSANDS, "one", isOldMoneyEvent=True)
    story.play(2)
    assert largest(story) < LARGEST


def test_entries_stay_small_when_many_replies_of_one_session_are_kept() -> None:
    story = Story(RULES, core=BY_HAND)
    for n in range(THOUSANDS):
        story.reply(f"money-{n:06}", 5 + n, "FOUND", "CA")
    story.play()
    assert largest(story) < LARGEST


# Growth and shrinking, on the pages themselves


class Book:
    """One user's entries, and what should be in them."""

    def __init__(self) -> None:
        self.state = MemoryState()
        self.types: set[bytes] = set()
        self.ids: dict[bytes, int] = {}
        self.sessions: dict[bytes, tuple[int, bytes, bytes]] = {}
        self.waiting: dict[bytes, bytes] = {}
        self.lookups: set[Lookup] = set()
        self.replies: set[bytes] = set()
        self.now = 0
        self.made = 0

    def open(self) -> tuple[Users, User]:
        users = Users(self.state, [b"ann"])
        return users, users.by_id[b"ann"]

    def add(self, n: int) -> None:
        users, user = self.open()
        for _ in range(n):
            self.made += 1
            self.now += 1
            name = b"item-%d" % self.made
            users.load_pages([(user, user.page_number(name))])
            self._add_one(user, name, self.made % 6)
        user.changed = True
        self.state.apply(users.changes())

    def _add_one(self, user: User, name: bytes, kind: int) -> None:
        page = user.page(name)
        if kind == 0:
            page.add_type(name, b"")
            self.types.add(name)
        elif kind == 1:
            page.sessions[name] = self.sessions[name] = (self.now, b"CA", b"")
            page.changed = True
        elif kind == 2:
            page.add_waiting(name, bytes(13))
            self.waiting[name] = bytes(13)
        elif kind == 3:
            page.replies.append(Reply(name, self.now, 0, None, b""))
            page.changed = True
            self.replies.add(name)
        elif kind == 4:
            page.lookups.append((name, self.now, bytes(POSITION_BYTES)))
            page.changed = True
            self.lookups.add((name, self.now, bytes(POSITION_BYTES)))
        else:
            page.add_id(pack_id(name), self.now, b"")
            self.ids[name] = self.now

    def purge(self, keep: int) -> None:
        """Remove all but the types and the ids and sessions of the last `keep` ticks."""
        users, user = self.open()
        users.load_all_pages(user)
        until = self.now - keep
        self.ids = {id: seen_at for id, seen_at in self.ids.items() if seen_at > until}
        self.sessions = {id: known for id, known in self.sessions.items() if known[0] > until}
        self.waiting.clear()
        self.lookups.clear()
        self.replies.clear()
        for page in user.pages.values():
            page.drop_ids(until)
            page.sessions = {id: known for id, known in page.sessions.items() if known[0] > until}
            page.waiting.clear()
            page.lookups.clear()
            page.replies.clear()
            page.changed = True
        user.changed = True
        users.shrink(user)
        self.state.apply(users.changes())

    def check(self) -> None:
        users, user = self.open()
        assert {key for key in self.state.entries if key[:1] == b"p"} <= {
            b"pann" + n.to_bytes(4, "big") for n in range(1 << user.depth)
        }
        users.load_all_pages(user)
        pages = user.pages.values()
        kinds = (self.types, self.ids, self.sessions, self.waiting, self.lookups, self.replies)
        total = sum(len(kind) for kind in kinds)
        assert user.items == sum(page.items() for page in pages) == total
        assert all(user.page(name).type_source(name) == b"" for name in self.types)
        assert all(user.page(name).seen_at(pack_id(name)) == seen_at for name, seen_at in self.ids.items())
        assert {id: known for page in pages for id, known in page.sessions.items()} == self.sessions
        assert {id: places for page in pages for id, places in page.waiting.items()} == self.waiting
        assert {lookup for page in pages for lookup in page.lookups} == self.lookups
        assert {reply.money_id for page in pages for reply in page.replies} == self.replies
        for number, page in user.pages.items():
            ids = [
                *page.sessions,
                *page.waiting,
                *(one[0] for one in page.lookups),
                *(r.money_id for r in page.replies),
            ]
            assert all(user.page_number(id) == number for id in ids)
            assert page.ids == b"" or page.first_seen() > NO_TIME


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(["add", "add", "purge"]), st.integers(0, 300)), max_size=8))
def test_growth_and_shrinking_keep_every_item(steps: list[tuple[str, int]]) -> None:
    book = Book()
    for step, n in steps:
        book.add(n) if step == "add" else book.purge(n)
        book.check()
        assert all(len(entry) < LARGEST for entry in book.state.entries.values())


def test_a_user_grows_while_at_work_where_all_of_it_is_here() -> None:
    book = Book()
    book.add(PAGE_ITEMS // 2)
    users, user = book.open()
    for depth in (0, 2, 4):
        assert user.depth == depth
        while max(page.ids_n for page in user.pages.values()) < FULL_IDS:
            book.made += 6
            book.now += 1
            book._add_one(user, b"item-%d" % book.made, 5)
        users.grow(user)
    assert user.depth == 6
    user.changed = True
    book.state.apply(users.changes())
    book.check()
    users, user = book.open()
    users.load_pages([(user, 1)])
    users.grow(user)
    assert (user.depth, list(user.pages)) == (6, [1])


def test_thousands_of_events_of_a_user_in_one_batch_are_as_in_many() -> None:
    def played(batches: int) -> Story:
        story = Story(core=BY_HAND)
        for n in range(THOUSANDS):
            time_s = n * 40 / THOUSANDS
            story.money(f"money-{n if n % 5 else n // 2:06}", time_s, moneyType=f"type-{n % 700:06}")
            if n % (THOUSANDS // batches) == THOUSANDS // batches - 1:
                story.play(time_s)
        return story

    once, often = played(1), played(20)
    assert once.values() == often.values()
    assert once.count("duplicates") == often.count("duplicates") == THOUSANDS // 10
    assert leftovers(once.sim)["ids"] == leftovers(often.sim)["ids"]
    assert largest(once) < LARGEST
    once.play(LONG_AFTER)
    assert leftovers(once.sim) == {}


def test_a_user_grows_out_of_its_record_and_back_into_it() -> None:
    book = Book()
    book.add(PAGE_ITEMS)
    assert set(book.state.entries) == {b"uann"}
    book.add(PAGE_ITEMS * 20)
    user = decode_user(b"ann", book.state.entries[b"uann"])
    assert user.depth == 5
    assert len(book.state.entries) == 33
    sizes = [decode_page_entry(entry).items() for key, entry in book.state.entries.items() if key[:1] == b"p"]
    assert max(sizes) < 2 * PAGE_ITEMS
    book.types.clear()
    users, user = book.open()
    users.load_all_pages(user)
    for page in user.pages.values():
        page.types, page.types_n, page.changed = b"", 0, True
    user.changed = True
    book.state.apply(users.changes())
    book.purge(10)
    assert decode_user(b"ann", book.state.entries[b"uann"]).depth == 0
    assert set(book.state.entries) == {b"uann"}
    book.check()
