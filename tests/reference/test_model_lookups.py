"""The reference model's lookups, reckoned by hand (docs/model.md section 3)."""

from __future__ import annotations

import pytest

from tests.reference.builder import LogBuilder, ms, out
from tests.reference.codec import Json
from tests.reference.model import (
    LOOKUP_RESULTS,
    Rules,
    encode,
    run,
)

NO_LOOKUP = Rules(lookup=False)


@pytest.mark.parametrize(
    ("outcome", "status", "session_info"),
    [
        ("FOUND", "LOOKED_UP", {"clientCountryCode": "UY"}),
        ("NOT_FOUND", "NOT_FOUND", None),
        ("FAILED", "LOOKUP_FAILED", None),
    ],
)
def test_a_reply_resolves_its_request(outcome: str, status: str, session_info: Json | None) -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s", isOldMoneyEvent=True)
    log.reply("m1", 10, outcome, "UY" if outcome == "FOUND" else None)
    result = log.run(Rules(), drain=True)
    assert (out(result), result.looking_up) == ([("m1", status)], 0)
    assert result.enriched[0].value["sessionInfo"] == session_info


def test_the_first_reply_in_the_log_wins() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s", isOldMoneyEvent=True)
    log.reply("m1", 10, "FAILED")
    log.reply("m1", 10, "FOUND", "UY")
    assert out(log.run(Rules(), drain=True)) == [("m1", "LOOKUP_FAILED")]


def test_a_reply_of_another_time_or_money_or_user_resolves_nothing() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s", isOldMoneyEvent=True)
    log.reply("m1", 10.001, "FOUND", "UY")
    log.reply("m2", 10, "FOUND", "UY")
    log.reply("m1", 10, "FOUND", "UY", user="bob")
    result = log.run(Rules(), drain=True)
    assert (out(result), result.looking_up) == ([], 1)
    assert result.users["ann"].looking_up[0].at_ms == ms(10)


def test_only_its_reply_resolves_money_that_was_sent_to_lookup() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s", isOldMoneyEvent=True)
    log.session("s", at=20)
    assert (out(log.run(Rules(), drain=True)), log.run(Rules(), drain=True).looking_up) == ([], 1)


def test_a_reply_resolves_all_the_money_of_its_pair() -> None:
    rules = Rules(dedup_ttl_ms=1000)
    log = LogBuilder()
    log.money("m1", at=10, session="s")  # its timer is due at 70
    log.money("m1", at=70, session="t", isOldMoneyEvent=True)
    log.reply("m1", 70, "NOT_FOUND")
    assert out(log.run(rules, drain=True)) == [("m1", "NOT_FOUND")] * 2


def test_without_lookup_nothing_is_asked_and_no_reply_is_read() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s", isOldMoneyEvent=True)
    log.reply("m1", 10, "FOUND", "UY")
    log.put(LOOKUP_RESULTS, None)
    result = log.run(NO_LOOKUP, drain=True)
    assert (out(result), result.requests, result.dead_letters) == ([("m1", "LOOKUP_FAILED")], [], [])


def test_replies_have_no_part_in_the_watermark() -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    log.beats(at=15)
    log.put(LOOKUP_RESULTS, encode("Heartbeat", {"processedAt": ms(1)}))
    log.put(LOOKUP_RESULTS, encode("Heartbeat", {"processedAt": ms(1000)}))
    result = run(log.records, [*log.partitions, (LOOKUP_RESULTS, 0), (LOOKUP_RESULTS, 1)], Rules())
    assert (result.watermark_ms, result.dead_letters) == (ms(-5), [])
