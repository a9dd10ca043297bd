"""The promises of docs/model.md section 3, one small story for each, on the core in memory.

Times are seconds after the start. The bound is 10 s, so heartbeats at 110 let everything before 100 pass.
"""

from __future__ import annotations

from moneystate.runtime import layout
from tests.enrichment import topics
from tests.enrichment.harness import dead_letters
from tests.enrichment.stories import LONG_AFTER, RULES, Story
from tests.reference import codec
from tests.reference.builder import ms
from tests.reference.model import SESSION, USER, WALLET, Rules

# Duplicates


def test_a_duplicate_is_dropped_and_counted(story: Story) -> None:
    story.money("m1", 0)
    story.money("m1", 49.999)
    story.play(100)
    assert story.out() == [("m1", "NO_SESSION")]
    assert story.count("duplicates") == 1


def test_a_duplicate_does_not_refresh_t0(story: Story) -> None:
    for time_s in (0, 40, 55):
        story.money("m1", time_s)
        story.play(time_s + 1)
    assert story.out() == [("m1", "NO_SESSION")] * 2
    assert story.count("duplicates") == 1


def test_an_id_may_come_again_exactly_dedup_ttl_after_t0(story: Story) -> None:
    story.money("m1", 0)
    story.money("m1", 50)
    story.play(100)
    assert len(story.out()) == 2


def test_an_id_that_came_again_is_the_new_t0(story: Story) -> None:
    for time_s in (0, 50, 99, 100):
        story.money("m1", time_s)
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
    assert story.left() == {}
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
    assert story.left() == {}


def test_a_user_with_nothing_left_is_gone(story: Story) -> None:
    story.session("s", 0)
    story.play(LONG_AFTER)
    assert [key for state in story.sim.states for key in state.entries if key != b"c"] == []


def test_every_changed_entry_or_its_removal_is_in_the_changes(story: Story) -> None:
    story.session("s", 0)
    story.money("m1", 2, "never")
    story.play(5)
    story.play(LONG_AFTER)
    from_changes: dict[bytes, bytes] = {}
    for key, value in story.sim.changes:
        if value is None:
            from_changes.pop(key)
        else:
            from_changes[key] = value
    kinds = layout.KINDS
    mine = {k: v for state in story.sim.states for k, v in state.entries.items() if k[:1] in kinds}
    assert from_changes == mine


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
