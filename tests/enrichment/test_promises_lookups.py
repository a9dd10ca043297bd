"""The promises of docs/model.md section 3 for money that is late, old or without its session, one small story each."""

from __future__ import annotations

import pytest

from tests.enrichment import topics
from tests.enrichment.stories import LONG_AFTER, WITHOUT_LOOKUP, Story
from tests.reference import codec
from tests.reference.builder import ms
from tests.reference.model import LAST_TIME_MS, WALLET

# Late and old money, lookups


def test_old_money_is_looked_up_even_where_its_session_is_known(story: Story) -> None:
    story.session("s", 0)
    story.money("m1", 5, "s", isOldMoneyEvent=True)
    story.play(20)
    assert (story.out(), story.asked()) == ([], [("m1", 5, "OLD")])
    assert story.count("looking_up") == 1


def test_late_money_is_joined_where_its_session_is_known(story: Story) -> None:
    story.session("s", 0)
    story.beat(WALLET, 50)
    story.money("m1", 1, "s")
    story.play(100)
    assert (story.out(), story.count("late")) == ([("m1", "JOINED")], 1)


def test_late_money_does_not_wait_for_its_session(story: Story) -> None:
    story.beat(WALLET, 50)
    story.money("m1", 1, "s")
    story.play(45)
    assert story.asked() == [("m1", 40, "LATE")]


def test_money_that_is_old_and_late_is_looked_up_as_old(story: Story) -> None:
    story.beat(WALLET, 50)
    story.money("m1", 1, "s", isOldMoneyEvent=True)
    story.play(45)
    assert story.asked() == [("m1", 40, "OLD")]


def test_late_duplicates_are_no_late_money(story: Story) -> None:
    story.money("m1", 45)
    story.beat(WALLET, 60)
    story.money("m1", 1)
    story.play(100)
    assert (story.count("late"), story.count("duplicates")) == (0, 1)


@pytest.mark.parametrize(
    ("outcome", "country", "status", "known"),
    [
        ("FOUND", "ES", "LOOKED_UP", "ES"),
        ("NOT_FOUND", None, "NOT_FOUND", None),
        ("FAILED", "ES", "LOOKUP_FAILED", None),
    ],
)
def test_a_reply_resolves_its_lookup(
    story: Story, outcome: str, country: str | None, status: str, known: str | None
) -> None:
    story.money("m1", 5, "s", isOldMoneyEvent=True)
    story.play(20)
    story.reply("m1", 5, outcome, country)
    story.play()
    assert (story.out(), story.countries()) == ([("m1", status)], [known])
    assert story.count("looking_up") == 0


def test_a_reply_resolves_exactly_its_pair(story: Story) -> None:
    story.money("m1", 5, "s", isOldMoneyEvent=True)
    story.play(20)
    story.reply("m1", 6, "FOUND", "CA")
    story.reply("m2", 5, "FOUND", "CA")
    story.reply("m1", 5, "FOUND", "CA", user="bob")
    story.play()
    assert (story.out(), story.count("looking_up")) == ([], 1)


def test_the_session_that_a_reply_names_has_no_part_in_what_it_resolves(story: Story) -> None:
    story.money("m1", 5, "not s", isOldMoneyEvent=True)
    story.play(20)
    story.reply("m1", 5, "FOUND", "ES")  # names the session s
    story.play()
    assert story.out() == [("m1", "LOOKED_UP")]


def test_the_first_reply_in_the_log_wins(story: Story) -> None:
    story.money("m1", 5, "s", isOldMoneyEvent=True)
    story.play(20)
    story.reply("m1", 5, "FOUND", "CA")
    story.reply("m1", 5, "FOUND", "ES")
    story.play()
    story.reply("m1", 5, "FAILED")
    story.play(25)
    assert story.countries() == ["CA"]


def test_a_reply_read_before_its_request_is_kept_until_the_watermark_passes(story: Story) -> None:
    story.reply("m1", 5, "FOUND", "CA")
    story.reply("m1", 5, "FOUND", "ES")
    story.play()
    assert story.left()["replies"] == 1
    story.money("m1", 5, "s", isOldMoneyEvent=True)
    story.play(20)
    assert (story.out(), story.countries()) == ([("m1", "LOOKED_UP")], ["CA"])
    assert story.asked() == [("m1", 5, "OLD")]  # a replay writes its requests again
    story.play(LONG_AFTER)
    assert story.left() == {}


def test_a_reply_after_the_watermark_without_its_request_is_dropped(story: Story) -> None:
    story.play(20)
    story.reply("m1", 5, "FOUND", "CA")
    story.play()
    assert story.left() == {}


def test_a_kept_reply_waits_for_the_timer_that_asks(story: Story) -> None:
    story.reply("m1", 31, "FOUND", "CA")
    story.money("m1", 1, "s")
    story.play(10)
    assert story.out() == []
    story.play(40)
    assert story.out() == [("m1", "LOOKED_UP")]


def test_a_request_and_its_reply_may_lie_beyond_the_last_event_time(story: Story) -> None:
    last = (LAST_TIME_MS - ms(0)) / 1000
    story.reply("m1", last + 30, "FOUND", "CA")
    story.money("m1", last, "s")
    story.play()
    assert (story.out(), story.left()["replies"]) == ([], 1)
    story.play(drain=True)
    assert (story.asked(), story.out()) == ([("m1", last + 30, "SESSION_MISSING")], [("m1", "LOOKED_UP")])
    assert story.left() == {}


def test_once_sent_to_lookup_only_the_reply_resolves_it(story: Story) -> None:
    story.money("m1", 0, "s")
    story.play(31)
    story.session("s", 32, "CA")
    story.money("m2", 33, "s")
    story.play(100)
    assert story.out() == [("m2", "JOINED")]
    story.reply("m1", 30, "NOT_FOUND")
    story.play()
    assert story.out() == [("m2", "JOINED"), ("m1", "NOT_FOUND")]


def test_a_request_says_whose_it_is() -> None:
    story = Story()
    story.money("m1", 5, "s", isOldMoneyEvent=True, userId="zoë")
    story.play(20)
    key, value = next((key, value) for stream, key, value, _ in story.sim.outputs if stream == topics.LOOKUP_REQUESTS)
    assert key == "zoë".encode()
    assert codec.decode(value or b"") == (
        "SessionLookupRequested",
        {"moneyId": "m1", "userId": "zoë", "userSessionId": "s", "requestedAt": ms(5), "reason": "OLD"},
    )


def test_without_lookup_such_money_is_put_out_at_once_as_failed() -> None:
    story = Story(WITHOUT_LOOKUP)
    story.money("old", 5, "s", isOldMoneyEvent=True)
    story.money("missing", 6, "s")
    story.beat(WALLET, 60)
    story.money("late", 7, "s")
    story.play(100)
    assert story.out() == [(name, "LOOKUP_FAILED") for name in ("old", "missing", "late")]
    assert (story.asked(), story.count("looking_up"), story.count("waiting")) == ([], 0, 0)
