"""What is over at a version's watermark is not in its answers, though the state has it until a sweep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.replica.model import NotFound, Version
from services.enrichment.events import Reply
from services.enrichment.page import Page
from services.enrichment.replica import decode
from services.enrichment.replica.model import UserView, Where
from services.enrichment.state import User, encode_user, user_key
from tests.replica.states import State, changes, entries, entry_of
from tests.replica.test_store_model import Replica

TTL = {"dedup_ttl_ms": 2}
SEEN = changes({}, entries(b"ann", State(country="ES", seen=(("m-0", 0), ("m-1", 1)))))
OTHER = changes({}, entries(b"bob", State(country="FR")))


@pytest.fixture
def replica() -> Iterator[Replica]:
    made = Replica(TTL)
    yield made
    made.close()


def seen(replica: Replica, batch: int) -> list[str]:
    return [m.id for m in replica.reader.at_version(Version("e", batch)).user("ann").seen_money]


def test_a_listing_has_the_money_ids_that_a_duplicate_would_be_found_by_at_its_watermark(replica: Replica) -> None:
    replica.apply(SEEN)
    for _ in range(3):
        replica.apply(OTHER)  # nothing of ann's: only the watermark goes on
    assert [seen(replica, batch) for batch in range(4)] == [["m-0", "m-1"], ["m-0", "m-1"], ["m-1"], []]
    early = replica.reader.at_version(Version("e", 1))
    assert early.money("m-0").where is Where.SEEN
    with pytest.raises(NotFound):
        replica.reader.latest().money("m-0")


def test_a_version_goes_by_the_rules_that_it_was_made_by(replica: Replica) -> None:
    replica.apply(SEEN)
    for rules in ({"dedup_ttl_ms": 1}, {"dedup_ttl_ms": 5}, {}):
        replica.rules = rules
        replica.apply(OTHER)
    replica.restart()
    replica.reader.refresh()
    assert [seen(replica, batch) for batch in range(4)] == [["m-0", "m-1"], ["m-1"], ["m-0", "m-1"], ["m-0", "m-1"]]


def test_a_difference_is_more_than_the_time_that_has_passed(replica: Replica) -> None:
    for _ in range(4):
        replica.apply(SEEN)
    first, last = (replica.reader.at_version(Version("e", batch)) for batch in (0, 3))
    assert first.user("ann") != last.user("ann")
    assert replica.reader.diff(first, last, limit=9).items == ()


def test_a_reply_is_kept_as_long_as_its_request_may_come() -> None:
    user = User(b"ann")
    user.pages = {0: Page()}
    user.page(b"m-0").replies.append(Reply(b"m-0", 5, 0, b"ES", b""))
    user.items = 1
    there = {entry_of(user_key(b"ann"))[1]: encode_user(user)}

    def kept(watermark_ms: int) -> int:
        view = decode.user_view(b"ann", there.get, watermark_ms, None)
        assert isinstance(view, UserView)
        return len(view.replies)

    assert [kept(time_s) for time_s in (4, 5, 6)] == [1, 1, 0]
