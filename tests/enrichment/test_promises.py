"""The promises of DESIGN.md section 3, one small story for each, on the core in memory.

Times are seconds after the start. The bound is 10 s, so heartbeats at 110 let everything before 100 pass.
"""

from __future__ import annotations

from typing import Any

import pytest

from services.enrichment import topics
from tests.enrichment.harness import dead_letters, inputs, leftovers, simulation
from tests.reference import codec
from tests.reference.builder import LogBuilder, ms
from tests.reference.model import LAST_TIME_MS, LOOKUP_RESULTS, SESSION, USER, WALLET, Rules

RULES = Rules(
    bound_ms=10_000,
    session_ttl_ms=100_000,
    dedup_ttl_ms=50_000,
    session_wait_ms=30_000,
    max_future_ms=600_000,
    lookup=True,
)
WITHOUT_LOOKUP = Rules(**{**{name: getattr(RULES, name) for name in RULES.__slots__}, "lookup": False})
LONG_AFTER = 10_000.0


class Story(LogBuilder):
    """A log that is played in batches: `play` sends what was appended since the last time."""

    def __init__(self, rules: Rules = RULES) -> None:
        super().__init__()
        self.sim = simulation(rules, [*self.partitions, (LOOKUP_RESULTS, 0)])
        self.sent = 0

    def play(self, until: float | None = None, drain: bool = False) -> None:
        """One batch; with heartbeats, so that all before `until` is processed."""
        if until is not None:
            self.beats(until + 10)
        self.sim.batch(inputs(self.records[self.sent :]), drain=drain)
        self.sent = len(self.records)

    def values(self) -> list[dict[str, Any]]:
        found = [value or b"" for stream, _, value, _ in self.sim.outputs if stream == topics.ENRICHED]
        return [codec.decode(value)[1] for value in found]

    def out(self) -> list[tuple[str, str]]:
        """(money id, status) as put out."""
        return [(value["money"]["id"], value["sessionStatus"]) for value in self.values()]

    def countries(self) -> list[str | None]:
        """Of the sessions that were joined or looked up."""
        infos = [value["sessionInfo"] for value in self.values()]
        return [None if info is None else info["clientCountryCode"] for info in infos]

    def asked(self) -> list[tuple[str, float, str]]:
        """(money id, requestedAt in seconds, reason) of the lookups."""
        found = [value or b"" for stream, _, value, _ in self.sim.outputs if stream == topics.LOOKUP_REQUESTS]
        fields = [codec.decode(value)[1] for value in found]
        return [(f["moneyId"], (f["requestedAt"] - ms(0)) / 1000, f["reason"]) for f in fields]

    def count(self, name: str) -> int:
        return self.sim.counts.get(name, 0)


@pytest.fixture
def story() -> Story:
    return Story()


# Duplicates


def test_a_duplicate_is_dropped_and_counted(story: Story) -> None:
    story.money("m1", 0)
    story.money("m1", 49.999)
    story.play(100)
    assert story.out() == [("m1", "NO_SESSION")]
    assert story.count("duplicates") == 1


def test_a_duplicate_does_not_refresh_t0(story: Story) -> None:
    for at in (0, 40, 55):
        story.money("m1", at)
        story.play(at + 1)
    assert story.out() == [("m1", "NO_SESSION")] * 2
    assert story.count("duplicates") == 1


def test_an_id_may_come_again_exactly_dedup_ttl_after_t0(story: Story) -> None:
    story.money("m1", 0)
    story.money("m1", 50)
    story.play(100)
    assert len(story.out()) == 2


def test_an_id_that_came_again_is_the_new_t0(story: Story) -> None:
    for at in (0, 50, 99, 100):
        story.money("m1", at)
    story.play(200)
    assert (len(story.out()), story.count("duplicates")) == (3, 1)


def test_ids_are_per_user(story: Story) -> None:
    story.money("m1", 0)
    story.money("m1", 1, userId="bob")
    story.play(100)
    assert len(story.out()) == 2


def test_ids_are_over_both_money_types_and_the_first_content_wins(story: Story) -> None:
    story.transaction("m1", 0, currency="USD")
    story.money("m1", 1, currency="EUR")
    story.play(100)
    assert [value["money"]["currency"] for value in story.values()] == ["USD"]


def test_the_first_is_the_first_in_time_not_in_the_log(story: Story) -> None:
    story.money("m1", 5, currency="EUR")
    story.money("m1", 4, currency="USD")
    story.play(100)
    assert [value["money"]["currency"] for value in story.values()] == ["USD"]


def test_a_duplicate_of_waiting_money_changes_nothing(story: Story) -> None:
    story.money("m1", 0, "s")
    story.play(5)
    story.money("m1", 6, "other")
    story.play(10)
    story.session("s", 12)
    story.play(100)
    assert story.out() == [("m1", "JOINED")]


# First occurrence


def test_first_occurrence_is_per_user_and_type_and_for_good(story: Story) -> None:
    story.money("m1", 0)
    story.transaction("m2", 1)
    story.money("m3", 2, moneyType="BBB")
    story.money("m4", 3, userId="bob")
    story.money("m5", LONG_AFTER)
    story.play(LONG_AFTER + 1)
    first = {value["money"]["id"]: value["firstOccurrence"] for value in story.values()}
    assert first == {"m1": True, "m2": False, "m3": True, "m4": True, "m5": False}


def test_a_duplicate_is_no_occurrence_of_its_type(story: Story) -> None:
    story.money("m1", 0)
    story.money("m1", 1, moneyType="BBB")
    story.money("m2", 2, moneyType="BBB")
    story.play(100)
    assert [value["firstOccurrence"] for value in story.values()] == [True, True]


def test_first_occurrence_is_decided_when_money_is_processed_not_when_it_is_put_out(story: Story) -> None:
    story.money("m1", 0, "s")
    story.money("m2", 1)
    story.session("s", 2)
    story.play(100)
    assert [(v["money"]["id"], v["firstOccurrence"]) for v in story.values()] == [("m2", False), ("m1", True)]


# User info


def test_user_info_is_absent_until_the_first_of_its_events(story: Story) -> None:
    story.money("m1", 0)
    story.birth("1990", 1)
    story.money("m2", 2)
    story.address("FI", 3)
    story.money("m3", 4)
    story.play(100)
    assert [value["userInfo"] for value in story.values()] == [
        None,
        {"birthYear": "1990", "residentCountryCode": None},
        {"birthYear": "1990", "residentCountryCode": "FI"},
    ]


def test_user_events_come_before_money_of_the_same_time(story: Story) -> None:
    story.money("m1", 5)
    story.address("FI", 5)
    story.play(100)
    assert story.values()[0]["userInfo"]["residentCountryCode"] == "FI"


def test_user_info_does_not_change_while_money_waits(story: Story) -> None:
    story.address("FI", 0)
    story.money("m1", 1, "s")
    story.play(5)
    story.address("CA", 6)
    story.session("s", 7)
    story.money("m2", 8)
    story.play(100)
    assert [value["userInfo"]["residentCountryCode"] for value in story.values()] == ["FI", "CA"]


def test_user_info_does_not_change_while_a_lookup_is_open(story: Story) -> None:
    story.money("m1", 1, "s", isOldMoneyEvent=True)
    story.play(5)
    story.address("CA", 6)
    story.play(10)
    story.reply("m1", 1, "FOUND", "ES")
    story.play()
    assert [value["userInfo"] for value in story.values()] == [None]


def test_user_info_and_types_stay_when_all_else_is_gone(story: Story) -> None:
    story.address("FI", 0)
    story.money("m1", 1)
    story.play(LONG_AFTER)
    assert leftovers(story.sim) == {}
    story.money("m2", LONG_AFTER)
    story.play(LONG_AFTER + 1)
    assert story.values()[1]["userInfo"]["residentCountryCode"] == "FI"
    assert not story.values()[1]["firstOccurrence"]


# Sessions


def test_money_without_a_session_is_put_out_at_once(story: Story) -> None:
    story.money("m1", 0, None, isOldMoneyEvent=True)
    story.play(1)
    assert story.out() == [("m1", "NO_SESSION")]


def test_an_empty_session_id_is_an_id(story: Story) -> None:
    story.session("", 0)
    story.money("m1", 1, "")
    story.play(100)
    assert story.out() == [("m1", "JOINED")]


def test_money_is_joined_until_just_before_its_session_expires(story: Story) -> None:
    story.session("s", 0)
    story.money("m1", 99.999, "s")
    story.money("m2", 100, "s")
    story.play(120)
    assert story.out() == [("m1", "JOINED")]
    assert story.count("waiting") == 1


def test_a_session_comes_before_money_of_the_same_time(story: Story) -> None:
    story.money("m1", 5, "s")
    story.session("s", 5)
    story.play(6)
    assert story.out() == [("m1", "JOINED")]


def test_a_session_belongs_to_the_user_that_it_names(story: Story) -> None:
    story.session("s", 0, user="bob")
    story.money("m1", 1, "s")
    story.play(20)
    assert story.out() == []


def test_money_waits_for_its_session_and_is_joined_when_it_comes(story: Story) -> None:
    story.money("m1", 0, "s")
    story.money("m2", 1, "s")
    story.play(10)
    assert (story.out(), story.count("waiting")) == ([], 2)
    story.session("s", 12, "ES")
    story.play(20)
    assert story.out() == [("m1", "JOINED"), ("m2", "JOINED")]
    assert (story.countries(), story.count("waiting")) == (["ES", "ES"], 0)


def test_a_session_at_the_very_end_of_the_wait_is_in_time(story: Story) -> None:
    story.money("m1", 0, "s")
    story.session("s", 30)
    story.play(100)
    assert (story.out(), story.asked()) == ([("m1", "JOINED")], [])


def test_a_session_after_the_wait_is_too_late(story: Story) -> None:
    story.money("m1", 0, "s")
    story.session("s", 30.001)
    story.play(100)
    assert (story.out(), story.asked()) == ([], [("m1", 30, "SESSION_MISSING")])


def test_waiting_money_is_joined_even_by_a_session_past_its_expiry() -> None:
    story = Story(Rules(**{**{name: getattr(RULES, name) for name in RULES.__slots__}, "session_ttl_ms": 5_000}))
    story.money("m1", 100, "s")
    story.play(101)
    story.beat(SESSION, 120)
    story.session("s", 90, "ES")  # becomes known at 110, expired at 95
    story.money("m2", 111, "s")
    story.play(125)
    assert (story.out(), story.countries()) == ([("m1", "JOINED")], ["ES"])
    assert story.count("waiting") == 1  # the session was not kept


def test_a_repeated_session_counts_only_where_it_expires_later(story: Story) -> None:
    story.session("s", 9, "CA")
    story.session("s", 1, "ES")
    story.money("m1", 20, "s")
    story.session("s", 30, "FI")
    story.money("m2", 120, "s")
    story.play(121)
    assert story.countries() == ["CA", "FI"]


def test_a_session_of_the_same_expiry_does_not_replace_the_first(story: Story) -> None:
    story.session("s", 5, "CA")
    story.session("s", 5, "ES")
    story.money("m1", 6, "s")
    story.play(10)
    assert story.countries() == ["CA"]


def test_the_removal_of_a_session_that_was_renewed_does_nothing(story: Story) -> None:
    story.session("s", 0)
    story.play(50)
    story.session("s", 60)
    story.play(155)
    story.money("m1", 156, "s")
    story.play(158)
    assert story.out() == [("m1", "JOINED")]


def test_waiting_money_takes_the_country_of_the_session_event_that_releases_it(story: Story) -> None:
    story.session("s", 0, "CA")
    story.money("m1", 105, "s")
    story.session("s", 106, "ES")
    story.play(200)
    assert story.countries() == ["ES"]


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
    assert leftovers(story.sim)["replies"] == 1
    story.money("m1", 5, "s", isOldMoneyEvent=True)
    story.play(20)
    assert (story.out(), story.countries()) == ([("m1", "LOOKED_UP")], ["CA"])
    assert story.asked() == [("m1", 5, "OLD")]  # a replay writes its requests again
    story.play(LONG_AFTER)
    assert leftovers(story.sim) == {}


def test_a_reply_after_the_watermark_without_its_request_is_dropped(story: Story) -> None:
    story.play(20)
    story.reply("m1", 5, "FOUND", "CA")
    story.play()
    assert leftovers(story.sim) == {}


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
    assert (story.out(), leftovers(story.sim)["replies"]) == ([], 1)
    story.play(drain=True)
    assert (story.asked(), story.out()) == ([("m1", last + 30, "SESSION_MISSING")], [("m1", "LOOKED_UP")])
    assert leftovers(story.sim) == {}


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


# What goes out, and what is left


def test_money_travels_unchanged_and_is_keyed_by_its_user(story: Story) -> None:
    story.transaction("m1", 5, amount=b"\x00\x01", currency="käse", userId="zoë")
    story.play(20)
    stream, key, value, _ = story.sim.outputs[0]
    assert (stream, key) == (topics.ENRICHED, "zoë".encode())
    assert codec.decode(value or b"")[1]["money"] == {
        "id": "m1", "userId": "zoë", "userSessionId": None, "processedAt": ms(5), "amount": b"\x00\x01",
        "currency": "käse", "closingBalance": b"\x1e\x84\x80", "moneyType": "AAA", "isOldMoneyEvent": False,
    }  # fmt: skip


def test_what_has_expired_leaves_no_trace(story: Story) -> None:
    story.session("s1", 0)
    story.session("s2", 1)
    story.money("m1", 2, "s1")
    story.money("m2", 3, "s")
    story.play(40)
    story.reply("m2", 33, "FAILED")
    story.play(LONG_AFTER)
    assert leftovers(story.sim) == {}


def test_a_user_with_nothing_left_is_gone(story: Story) -> None:
    story.session("s", 0)
    story.play(LONG_AFTER)
    assert [key for state in story.sim.states for key in state.entries if key != b"c"] == []


def test_every_changed_entry_or_its_removal_is_in_the_changes(story: Story) -> None:
    story.session("s", 0)
    story.money("m1", 2, "never")
    story.play(5)
    story.play(LONG_AFTER)
    kept: dict[bytes, bytes] = {}
    for key, value in story.sim.changes:
        if value is None:
            kept.pop(key)
        else:
            kept[key] = value
    mine = {k: v for state in story.sim.states for k, v in state.entries.items() if k[:1] in (b"u", b"p", b"w")}
    assert kept == mine


def test_ignored_types_advance_stream_time_and_are_nothing_else(story: Story) -> None:
    story.money("m1", 0)
    story.event(WALLET, "KindOfWalletEvent", 50, {"id": "w", "userId": "ann", "somethingInteresting": "x"})
    story.event(USER, "OtherUserEvent", 50, {"id": "o", "userId": "ann", "somethingUtil": "x"})
    story.event(SESSION, "UserSessionClosedEvent", 50, {"id": "s", "userId": "ann", "reason": "x"})
    story.play()
    assert story.out() == [("m1", "NO_SESSION")]
    assert story.sim.watermark == ms(40)


def test_dead_letters_say_why_and_do_not_advance_stream_time(story: Story) -> None:
    story.put(WALLET, None)
    story.put(WALLET, b"\xc3\x01" + bytes(8))
    story.put(WALLET, codec.HEADER["PaymentEvent"] + b"\x02")
    story.put(USER, codec.encode("Heartbeat", {"processedAt": ms(900)}) + b"\x00")
    session = {"id": "s", "userId": "ann", "clientCountryCode": "CA"}
    story.event(WALLET, "UserSessionCreatedEvent", 900, session)
    story.put(WALLET, codec.encode("Heartbeat", {"processedAt": ms(900)}), timestamp_ms=ms(0))
    story.play()
    assert sorted(dead_letters(story.sim)) == [
        (USER, 0, 0, "trailing_bytes"),
        (WALLET, 0, 0, "null_value"),
        (WALLET, 0, 1, "unknown_schema"),
        (WALLET, 0, 2, "malformed"),
        (WALLET, 0, 3, "wrong_topic"),
        (WALLET, 0, 4, "too_far_ahead"),
    ]
    assert story.sim.watermark < ms(0)


def test_results_do_not_depend_on_where_batches_end() -> None:
    def tell(story: Story, in_one: bool) -> list[tuple[str, str]]:
        for n in range(40):
            story.money(f"m{n % 30}", n, "s" if n % 3 else None)
            if n % 10 == 7:
                story.session("s", n)
            if not in_one:
                story.play()
        story.play(drain=True)
        return story.out()

    assert tell(Story(), True) == tell(Story(), False)
