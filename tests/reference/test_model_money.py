"""The reference model's users, sessions, money and state, reckoned by hand (docs/model.md section 3)."""

from __future__ import annotations

from tests.reference.builder import LogBuilder, asked, ms, out
from tests.reference.model import (
    SESSION,
    WALLET,
    Rules,
)

NO_LOOKUP = Rules(lookup=False)
FAR = 10 * 86_400.0  # seconds: a heartbeat of this time releases everything, and only users are left in state


# --- users ---


def test_user_info_is_absent_until_the_first_event_of_the_user_and_then_partly_known() -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    log.birth("1978", at=20)
    log.money("m2", at=30)
    log.address("ES", at=40, user="bob")
    log.money("m3", at=50)
    infos = [record.value["userInfo"] for record in log.run(Rules(), drain=True).enriched]
    assert infos == [None, *[{"birthYear": "1978", "residentCountryCode": None}] * 2]


def test_waiting_does_not_change_the_user_info_that_money_took_along() -> None:
    log = LogBuilder()
    log.address("ES", at=5)
    log.money("m1", at=10, session="s")
    log.address("PO", at=20)
    log.session("s", at=30)
    assert log.run(Rules(), drain=True).enriched[0].value["userInfo"]["residentCountryCode"] == "ES"


def test_the_user_is_the_one_in_the_value_not_the_key() -> None:
    log = LogBuilder()
    log.money("m1", at=10, userId="bob")  # the builder's key is none of theirs
    assert log.run(Rules(), drain=True).enriched[0].user_id == "bob"


# --- sessions ---


def test_a_session_joins_until_just_before_it_expires() -> None:
    rules = Rules(session_ttl_ms=50_000)
    log = LogBuilder()
    log.session("s", at=10)
    log.money("in", at=59.999, session="s")
    log.money("past", at=60, session="s")
    result = log.run(rules, drain=True)
    assert (out(result), asked(result)) == ([("in", "JOINED")], [("past", 120, "SESSION_MISSING")])


def test_a_session_of_another_user_does_not_join() -> None:
    log = LogBuilder()
    log.session("s", at=10, user="bob")
    log.money("m1", at=20, session="s")
    assert asked(log.run(Rules(), drain=True)) == [("m1", 80, "SESSION_MISSING")]


def test_a_repeated_session_counts_only_where_it_expires_later() -> None:
    rules = Rules(session_ttl_ms=50_000)
    log = LogBuilder()
    log.session("s", at=10, country="CA")
    log.session("s", at=5, country="ES")
    log.session("s", at=10, country="FI")
    log.money("m1", at=12, session="s")
    log.session("s", at=30, country="IT")
    log.money("m2", at=79, session="s")  # the first one would be over at 60
    countries = [record.value["sessionInfo"]["clientCountryCode"] for record in log.run(rules, drain=True).enriched]
    assert countries == ["CA", "IT"]


def test_a_session_past_its_expiry_joins_waiting_money_and_is_not_kept() -> None:
    rules = Rules(session_ttl_ms=5_000)
    log = LogBuilder()
    log.money("m1", at=80, session="s")
    log.beat(SESSION, at=110)
    log.session("s", at=85, country="FI")  # order time 90, expires at 90
    log.money("m2", at=91, session="s")
    log.beats(at=120)  # W = 100
    result = log.run(rules)
    assert (out(result), result.waiting) == ([("m1", "JOINED")], 1)
    assert result.enriched[0].value["sessionInfo"] == {"clientCountryCode": "FI"}
    assert result.users["ann"].sessions == {}


def test_a_session_puts_out_all_the_money_that_waits_for_it_and_no_other() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s")
    log.money("m2", at=11, session="t")
    log.money("m3", at=12, session="s", userId="bob")
    log.transaction("m4", at=13, session="s")
    log.session("s", at=20)
    log.beats(at=60)  # W = 40
    result = log.run(Rules())
    assert (out(result), result.waiting) == ([("m1", "JOINED"), ("m4", "JOINED")], 2)
    assert [pending.money["id"] for pending in result.users["ann"].waiting] == ["m2"]
    assert result.users["ann"].waiting[0].at_ms == ms(71)


def test_a_closed_session_stays_valid() -> None:
    log = LogBuilder()
    log.session("s", at=10)
    log.event(SESSION, "UserSessionClosedEvent", 11, {"id": "s", "userId": "ann", "reason": "logout"})
    log.money("m1", at=20, session="s")
    assert out(log.run(Rules(), drain=True)) == [("m1", "JOINED")]


# --- money ---


def test_an_id_is_a_duplicate_until_just_before_its_ttl_and_the_time_is_not_refreshed() -> None:
    rules = Rules(dedup_ttl_ms=30_000)
    log = LogBuilder()
    log.money("m1", at=10, moneyType="first")
    log.money("m1", at=39.999, moneyType="second")
    log.money("m1", at=40, moneyType="third")
    result = log.run(rules, drain=True)
    assert [record.value["money"]["moneyType"] for record in result.enriched] == ["first", "third"]
    assert result.duplicates == 1


def test_an_id_that_came_again_after_its_ttl_is_a_duplicate_for_another_ttl() -> None:
    log = LogBuilder()
    for time_s in (10, 40, 69.999, 70):
        log.money("m1", at=time_s)
    result = log.run(Rules(dedup_ttl_ms=30_000), drain=True)
    assert (len(result.enriched), result.duplicates) == (3, 1)


def test_ids_are_shared_by_both_money_types_but_not_by_users() -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    log.transaction("m1", at=11)
    log.transaction("m1", at=12, userId="bob")
    result = log.run(Rules(), drain=True)
    assert [(r.user_id, r.value["money"]["id"]) for r in result.enriched] == [("ann", "m1"), ("bob", "m1")]
    assert result.duplicates == 1


def test_a_late_duplicate_counts_as_duplicate_only() -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    log.beat(WALLET, at=100)
    log.money("m1", at=11)
    log.money("m2", at=11)
    result = log.run(Rules(), drain=True)
    assert (result.duplicates, result.late) == (1, 1)


def test_the_first_content_by_order_time_wins_not_the_first_in_the_log() -> None:
    log = LogBuilder()
    log.money("m1", at=100, moneyType="BBB")
    log.money("m1", at=10, moneyType="AAA")  # order time 80
    result = log.run(Rules(), drain=True)
    assert [record.value["money"]["moneyType"] for record in result.enriched] == ["AAA"]


def test_a_first_occurrence_is_remembered_for_good_but_a_duplicate_does_not_make_one() -> None:
    log = LogBuilder()
    log.money("m1", at=10, moneyType="AAA")
    log.money("m1", at=11, moneyType="BBB")
    log.money("m2", at=12, moneyType="BBB")
    log.money("m3", at=900_000, moneyType="AAA")
    firsts = [record.value["firstOccurrence"] for record in log.run(Rules(), drain=True).enriched]
    assert firsts == [True, True, False]


def test_waiting_money_already_counts_as_the_first_of_its_type() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s")
    log.money("m2", at=11)
    result = log.run(NO_LOOKUP, drain=True)
    assert [(r.value["money"]["id"], r.value["firstOccurrence"]) for r in result.enriched] == [
        ("m2", False),
        ("m1", True),
    ]


def test_money_without_a_session_id_is_put_out_at_once_even_old_or_late() -> None:
    log = LogBuilder()
    log.beat(WALLET, at=100)
    log.money("m1", at=10, isOldMoneyEvent=True)
    assert out(log.run(Rules(), drain=True)) == [("m1", "NO_SESSION")]


def test_an_empty_session_id_is_an_id() -> None:
    log = LogBuilder()
    log.session("", at=5)
    log.money("m1", at=10, session="")
    assert out(log.run(Rules(), drain=True)) == [("m1", "JOINED")]


def test_old_money_is_looked_up_even_where_its_session_is_known() -> None:
    log = LogBuilder()
    log.session("s", at=5)
    log.money("m1", at=10, session="s", isOldMoneyEvent=True)
    assert asked(log.run(Rules(), drain=True)) == [("m1", 10, "OLD")]


def test_late_money_joins_a_known_session_and_is_else_looked_up_at_its_order_time() -> None:
    log = LogBuilder()
    log.session("s", at=70)
    log.beat(WALLET, at=100)
    log.money("m1", at=10, session="s")
    log.money("m2", at=10, session="t")
    result = log.run(Rules(), drain=True)
    assert (out(result), asked(result)) == ([("m1", "JOINED")], [("m2", 80, "LATE")])


# --- state ---


def test_expired_sessions_and_old_ids_leave_the_state_and_user_info_and_types_stay() -> None:
    log = LogBuilder()
    log.address("ES", at=1)
    log.session("s", at=2)
    log.session("s", at=3, user="bob")
    log.money("m1", at=4, session="s")
    log.beats(at=100)
    user = log.run(Rules()).users["ann"]
    assert (user.sessions, user.seen_money) == ({"s": ("CA", ms(2 + 86_400))}, {"m1": ms(4)})
    log.beats(FAR)
    users = log.run(Rules()).users
    assert set(users) == {"ann"}
    assert (users["ann"].sessions, users["ann"].seen_money, users["ann"].money_types) == ({}, {}, {"AAA"})
    assert users["ann"].user_info == {"birthYear": None, "residentCountryCode": "ES"}
