"""The reference model's tests: the scenario, order, lateness and timers, reckoned by hand (docs/model.md section 2)."""

from __future__ import annotations

import json
from decimal import Decimal
from math import inf
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given

from tests.reference.builder import LogBuilder, asked, ms, out
from tests.reference.codec import HEADER, Json
from tests.reference.model import (
    SESSION,
    USER,
    WALLET,
    Rules,
    decode,
    encode,
    from_json,
    run,
)
from tests.reference.strategies import Case, cases

SCENARIO = Path(__file__).with_name("scenario.jsonl")
FAR = 10 * 86_400.0  # seconds: a heartbeat of this time releases everything, and only users are left in state


# --- the scenario ---


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_scenario_gives_every_expectation(partitions: int) -> None:
    log = LogBuilder(partitions)
    rules = Rules(dedup_ttl_ms=60_000, lookup=False)
    expected: list[Json] = []
    for line in SCENARIO.read_text().splitlines():
        step = json.loads(line, parse_float=Decimal)
        if "event" in step:
            event_type, fields = from_json(step["event"])
            log.put(step["topic"], encode(event_type, fields), partition=crc32(step["key"].encode()) % partitions)
        elif "advanceTo" in step:
            _, fields = from_json({"type": "Heartbeat", "processedAt": step["advanceTo"]})
            for topic, number in log.partitions:
                log.put(topic, encode("Heartbeat", fields), partition=number)
        elif step["expect"] is not None:
            expected.append(_expected(step["expect"]))
            assert expected[-1] in _put_out(log, rules), step["step"]
    assert sorted(_put_out(log, rules), key=str) == sorted(expected, key=str)


def _expected(expect: Json) -> Json:
    if expect["clientCountryCode"] == "@service":
        return {**expect, "clientCountryCode": None, "sessionStatus": "LOOKUP_FAILED"}
    return expect


def _put_out(log: LogBuilder, rules: Rules) -> list[Json]:
    return [
        {
            "moneyId": record.value["money"]["id"],
            "userInfo": record.value["userInfo"],
            "clientCountryCode": (record.value["sessionInfo"] or {}).get("clientCountryCode"),
            "firstOccurrence": record.value["firstOccurrence"],
            "sessionStatus": record.value["sessionStatus"],
        }
        for record in log.run(rules).enriched
    ]


# --- order and lateness ---


def test_an_event_is_released_only_when_the_watermark_has_passed_its_order_time() -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    log.beats(at=30)  # W = 10
    assert (out(log.run(Rules())), log.run(Rules()).buffered) == ([], 1)
    log.beats(at=30.001)
    assert (out(log.run(Rules())), log.run(Rules()).buffered) == ([("m1", "NO_SESSION")], 0)


def test_the_slowest_partition_holds_the_watermark() -> None:
    log = LogBuilder(partitions=2)
    log.money("m1", at=10)
    log.beats(at=25)
    log.beat(WALLET, at=1000, partition=0)
    result = log.run(Rules())
    assert (result.watermark_ms, out(result)) == (ms(5), [])


def test_a_partition_without_a_record_holds_everything_back() -> None:
    log = LogBuilder(partitions=2)
    log.money("m1", at=10)
    for topic, number in log.partitions[:-1]:
        log.beat(topic, FAR, number)
    assert log.run(Rules()).watermark_ms == -inf
    assert out(log.run(Rules())) == []


def test_a_partition_with_nothing_but_dead_letters_has_had_no_record() -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    log.beat(WALLET, FAR)
    log.beat(USER, FAR)
    log.put(SESSION, None)
    assert log.run(Rules()).watermark_ms == -inf


def test_a_drain_releases_everything_even_with_an_empty_partition() -> None:
    log = LogBuilder()
    log.money("m1", at=10)
    assert out(log.run(Rules(), drain=True)) == [("m1", "NO_SESSION")]


def test_a_late_event_takes_its_place_where_it_became_known() -> None:
    log = LogBuilder()
    log.beat(WALLET, at=100)
    log.money("m1", at=79.999)  # order time 80
    log.address("ES", at=79.9995)
    log.address("FI", at=80.001)
    result = log.run(Rules(), drain=True)
    assert result.enriched[0].value["userInfo"]["residentCountryCode"] == "ES"
    assert result.late == 1


def test_an_event_exactly_the_bound_behind_is_not_late() -> None:
    log = LogBuilder()
    log.beat(WALLET, at=100)
    log.money("m1", at=80)
    assert log.run(Rules(), drain=True).late == 0


def test_the_first_record_of_a_partition_is_never_late_whatever_other_partitions_say() -> None:
    log = LogBuilder(partitions=2)
    log.beat(WALLET, at=1000, partition=0)
    log.money("m1", at=10, partition=1)
    assert log.run(Rules(), drain=True).late == 0


def test_ignored_types_advance_stream_time_and_dead_letters_do_not() -> None:
    log = LogBuilder()
    log.put(WALLET, encode("KindOfWalletEvent", _ignored(at=500)) + b"left over")
    log.money("m1", at=10)
    log.event(WALLET, "KindOfWalletEvent", 100, _ignored(at=100))
    log.money("m2", at=10)
    assert log.run(Rules(), drain=True).late == 1


def _ignored(at: float) -> Json:
    return {"id": "k", "userId": "ann", "processedAt": ms(at), "somethingInteresting": "x"}


def test_at_the_same_time_users_come_before_sessions_and_sessions_before_money() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s")
    log.session("s", at=10)
    log.address("ES", at=10)
    result = log.run(Rules(), drain=True)
    assert out(result) == [("m1", "JOINED")]
    assert result.enriched[0].value["userInfo"] == {"birthYear": None, "residentCountryCode": "ES"}


def test_a_session_of_the_same_time_is_known_even_to_money_that_does_not_wait() -> None:
    log = LogBuilder()
    log.beat(WALLET, at=100)
    log.money("m1", at=10, session="s")  # late, order time 80
    log.session("s", at=80)
    assert out(log.run(Rules(), drain=True)) == [("m1", "JOINED")]


def test_ties_of_one_rank_are_decided_by_partition_and_then_offset() -> None:
    log = LogBuilder(partitions=2)
    log.money("c", at=10, partition=1)
    log.money("a", at=10, partition=0)
    log.money("b", at=10, partition=0)
    assert [money for money, _ in out(log.run(Rules(), drain=True))] == ["a", "b", "c"]


# --- timers ---


def test_a_timer_runs_after_all_events_of_its_time() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s")
    log.session("s", at=70)
    assert out(log.run(Rules(), drain=True)) == [("m1", "JOINED")]


def test_a_timer_runs_before_any_later_event() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s")
    log.session("s", at=70.001)
    result = log.run(Rules(), drain=True)
    assert (out(result), asked(result)) == ([], [("m1", 70, "SESSION_MISSING")])


def test_a_timer_runs_once_the_watermark_has_passed_it() -> None:
    log = LogBuilder()
    log.money("m1", at=10, session="s")
    log.beats(at=90)  # W = 70
    assert (log.run(Rules()).waiting, log.run(Rules()).requests) == (1, [])
    log.beats(at=90.001)
    assert (log.run(Rules()).waiting, asked(log.run(Rules()))) == (0, [("m1", 70, "SESSION_MISSING")])


def test_timers_of_one_time_run_in_the_order_of_the_money_that_set_them() -> None:
    log = LogBuilder(partitions=2)
    log.money("z", at=10, session="s", partition=0)
    log.money("a", at=10, session="t", partition=1, userId="bob")
    log.money("b", at=10, session="s", partition=1)
    assert [money for money, _, _ in asked(log.run(Rules(), drain=True))] == ["z", "a", "b"]


# --- any log ---
@given(cases())
def test_all_money_that_decodes_is_put_out_or_dropped_as_a_duplicate_or_looked_up(case: Case) -> None:
    result = run(case.records, case.partitions, case.rules, drain=True, lookup_results=case.replies)
    dead = {letter[:3] for letter in result.dead_letters}
    good = [record for record in case.records if (record.topic, record.partition, record.offset) not in dead]
    money = [
        record for record in good if (record.value or b"")[:10] in (HEADER["PaymentEvent"], HEADER["TransactionEvent"])
    ]
    assert len(money) == len(result.enriched) + result.duplicates + result.looking_up
    assert (result.buffered, result.waiting) == (0, 0)


@given(cases())
def test_how_partitions_interleave_changes_nothing(case: Case) -> None:
    result = run(case.records, case.partitions, case.rules, lookup_results=case.replies)
    shuffled = sorted(case.records, key=lambda record: (record.offset, record.partition), reverse=True)
    assert run(shuffled, case.partitions, case.rules, lookup_results=case.replies[::-1]) == result


@given(cases())
def test_what_a_watermark_released_stays_the_same_when_the_log_goes_on(case: Case) -> None:
    part = run(case.records[: len(case.records) // 2], case.partitions, case.rules, lookup_results=case.replies)
    whole = run(case.records, case.partitions, case.rules, lookup_results=case.replies)
    assert whole.enriched[: len(part.enriched)] == part.enriched
    assert whole.requests[: len(part.requests)] == part.requests
    assert all(decode(record.encoded) == ("MoneyEnriched", record.value) for record in whole.enriched)
