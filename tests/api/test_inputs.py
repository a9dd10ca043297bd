"""Inputs that are read by functions of the service, with a fallback, or with what is in headers."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.errors import StepError
from moneystate.testing import Bench
from moneystate.testing.generated import check_batches
from tests.api.services import mailbox
from tests.api.services.mailbox import Data, Event, Letter, Ping, Posted, Reading

S = 1_000
POST = {"ce_id": "1", "ce_source": "/shop", "ce_type": "note", "ce_time": "1970-01-01T00:00:05Z"}


def bench(**more: Any) -> Bench:
    return Bench(mailbox.service, bound_ms=2 * S, **more)


def lines(b: Bench) -> list[tuple[str, str]]:
    return [(line.key, line.text) for line in b.out(mailbox.lines)]


def packed(value: int, seconds: int) -> bytes:
    return struct.pack(">iq", value, seconds)


# decode=


def test_a_function_makes_the_record_from_the_whole_kafka_record() -> None:
    b = bench()
    b.send_raw("readings", packed(5, 3), key="s1")
    assert lines(b) == [("s1", f"3000:{Reading('s1', 20, 3 * S)}")]
    b.end()


def test_a_record_that_the_function_gives_none_for_is_ignored_and_does_not_advance_time() -> None:
    b = bench()
    b.send_raw("readings", b"")
    b.send_raw("readings", None)
    assert (lines(b), b.dead_letters(), b.count("ignored")) == ([], [], 2)
    assert b.latest is None


def test_a_value_error_of_the_function_is_a_dead_letter_with_the_original_record() -> None:
    b = bench()
    b.send_raw("readings", b"\xff", key=b"s1", headers={"trace": "7"})
    assert b.dead_letters() == ["malformed"]
    (letter,) = [output for output in b.run.sim.outputs if output[0] == b.plan.dead_letter_stream]
    assert letter[1:3] == (b"s1", b"\xff")
    headers = dict(letter[3])
    assert (headers["trace"], headers["moneystate.detail"]) == (b"7", b"1 bytes, expected 12")


def test_any_other_exception_ends_the_job_with_the_place_of_the_record_and_the_line() -> None:
    b = bench()
    b.send_raw("readings", packed(1, 1), key="s1")
    b.send_raw("readings", packed(0, 1), key="s1")
    with pytest.raises(
        StepError, match=r"readings, partition 0, offset 1: reading at mailbox.py:\d+: ZeroDivisionError: .* Do: fix"
    ):
        b.dead_letters()


def test_with_errors_as_dead_letters_such_a_record_is_one() -> None:
    b = bench(dead_letter_errors=True)
    b.send_raw("readings", packed(0, 1), key="s1")
    assert b.dead_letters() == ["exception"]


@pytest.mark.parametrize("topic", ["readings", "letters", "posts", "pings", "events"])
@pytest.mark.parametrize("json", [True, False])
def test_a_heartbeat_advances_time_in_every_input(topic: str, json: bool) -> None:
    b = bench()
    value = b'{"type":"Heartbeat","processedAt":"1970-01-01T00:00:09Z"}' if json else b.run.heartbeat(9 * S)
    if topic in ("letters", "posts", "events") and not json:
        return  # a topic in JSON has heartbeats in JSON
    b.send_raw(topic, value)
    assert (b.dead_letters(), b.latest) == ([], 9 * S)


def test_a_record_that_is_sent_as_it_is_declared_needs_no_function() -> None:
    b = bench()
    b.send(Reading("s1", 2, 3 * S), Letter("eve", "hi", 4 * S), Ping("h", 5 * S))
    assert [key for key, _ in lines(b)] == ["s1", "eve", "h"]


# fallback=


def test_the_fallback_takes_a_record_that_does_not_decode() -> None:
    b = bench()
    b.send_raw("letters", "no json", key="eve", headers={"at": "9000"})
    b.send(Letter("bob", "late", 1 * S))
    b.send_raw("letters", '{"who": "eve", "text": "hi", "at": 9000}')
    assert lines(b) == [("bob", f"7000:{Letter('bob', 'late', S)}"), ("eve", f"9000:{Letter('eve', 'hi', 9 * S)}")]
    assert b.dead_letters() == ["poison"]
    b.end()


def test_what_the_fallback_gives_none_for_stays_a_dead_letter_of_the_first_reason() -> None:
    b = bench()
    b.send_raw("letters", "no json", key="eve")
    b.send_raw("letters", None, key="eve")
    b.send_raw("letters", '{"type": "Else"}')
    assert b.dead_letters() == ["malformed", "null_value", "unknown_schema"]
    assert b.latest is None


def test_nobody_can_send_the_fallbacks_own_record() -> None:
    b = bench()
    b.send_raw("letters", '{"type": "Poisoned", "who": "eve", "at": 9000}')
    assert b.dead_letters() == ["unknown_schema"]
    assert b.latest is None


def test_the_fallbacks_record_advances_time() -> None:
    b = bench()
    b.send_raw("letters", "no json", key="eve", headers={"at": "9000"})
    assert b.latest == 9 * S
    assert dead_letter_values(b) == [b"no json"]


def dead_letter_values(b: Bench) -> list[bytes]:
    """Returns the values of a step that has rejected the record of a fallback."""
    b.dead_letters()
    return [value or b"" for stream, _, value, _ in b.run.sim.outputs if stream == b.plan.dead_letter_stream]


# Headers


def test_fields_keys_and_times_come_from_headers() -> None:
    b = bench()
    b.send_raw("posts", '{"text": "hello"}', headers=POST)
    b.send_raw("posts", '{"text": "on", "size": 1}', headers={**POST, "ce_time": "6000", "urgent": "true", "size": "3"})
    first = Posted("1", "/shop", "note", "hello", None)
    second = Posted("1", "/shop", "note", "on", 3, True)
    assert lines(b) == [('["/shop","1"]', f"5000:{first}"), ('["/shop","1"]', f"6000:{second}")]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ce_id": None}, "malformed"),
        ({"ce_time": None}, "malformed"),
        ({"ce_time": "soon"}, "malformed"),
        ({"ce_type": "other"}, "malformed"),
        ({"urgent": "yes"}, "malformed"),
        ({"ce_time": "--5"}, "malformed"),
        ({"ce_time": "²"}, "malformed"),
        ({"size": "many"}, "malformed"),
        ({"size": "--5"}, "malformed"),
        ({"size": "²"}, "malformed"),
        ({"ce_source": b"\xff"}, "malformed"),
    ],
)
def test_a_header_that_is_missing_or_does_not_fit_is_a_dead_letter(changed: dict[str, Any], reason: str) -> None:
    b = bench()
    b.send_raw("posts", '{"text": "hello"}', headers={**POST, **changed})
    assert b.dead_letters() == [reason]


@pytest.mark.parametrize("value", [None, b"\xff not looked at"])
def test_a_value_is_not_decoded_where_all_fields_are_in_headers(value: bytes | None) -> None:
    b = bench()
    b.send_raw("pings", value, headers={"host": "h1", "at": "1970-01-01T00:00:04Z"})
    assert lines(b) == [("h1", f"4000:{Ping('h1', 4 * S)}")]


def test_a_record_is_sent_with_the_headers_that_its_input_needs() -> None:
    b = bench()
    b.send(Posted("1", "/shop", "note", "hello", None), headers=POST)
    assert [key for key, _ in lines(b)] == ['["/shop","1"]']


def test_a_cloud_event_in_structured_mode_is_plain_json() -> None:
    b = bench()
    envelope = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "shop.note", "time": "1970-01-01T00:00:05Z"}
    b.send_raw("events", json.dumps({**envelope, "datacontenttype": "application/json", "data": {"text": "hi"}}))
    assert lines(b) == [('["/shop","1"]', f"5000:{Event('1', '/shop', 'shop.note', 5 * S, Data('hi'))}")]


def test_a_check_sends_records_with_the_headers_that_they_need() -> None:
    outputs, dead_letters = check_batches(mailbox.service, 60, 1)
    assert set(dead_letters) == {"poison"}
    assert outputs + dead_letters["poison"] == 60


# Functions of keys and times


@dataclass(frozen=True)
class Shared:
    total: int
    parts: int
    at: ms.Millis


def sharing() -> ms.Service[None]:
    service = ms.Service("sharing")
    shared = service.input("shared", Shared, key=lambda e: str(e.total // e.parts), time="at")
    service.on(shared)(lambda ctx, e: None)
    return service


def test_an_exception_of_a_key_function_ends_the_job_with_the_place_of_the_record() -> None:
    b = Bench(sharing())
    b.send(Shared(1, 1, S), Shared(1, 0, S))
    with pytest.raises(StepError, match=r"shared, partition 0, offset 1: .* ZeroDivisionError: .*test_inputs.py, line"):
        b.dead_letters()


def test_with_errors_as_dead_letters_such_a_record_is_one_too() -> None:
    b = Bench(sharing(), dead_letter_errors=True)
    b.send(Shared(1, 1, S), Shared(1, 0, S))
    assert b.dead_letters() == ["exception"]


# Several functions in one topic


def shared_of(message: ms.Message) -> Shared | None:
    return Shared(6, 2, S) if message.headers.get("ce_type") == b"shared" else None


def reading_of(message: ms.Message) -> Reading | None:
    return Reading("s", 1, 2 * S) if message.headers.get("ce_type") == b"reading" else None


def test_types_of_a_topic_are_told_apart_by_functions() -> None:
    service = ms.Service("typed")
    shared = service.input("all", Shared, key="total", time="at", decode=shared_of)
    readings = service.input("all", Reading, key="sensor", time="at", decode=reading_of)
    out = service.output("out", mailbox.Line, key="key")
    service.on(shared | readings)(lambda ctx, e: ctx.emit(out, mailbox.Line(ctx.key, type(e).__name__)))
    b = Bench(service)
    for kind in ("reading", "else", "shared"):
        b.send_raw("all", "x", headers={"ce_type": kind})
    b.send_raw("all", "x")
    assert [(line.key, line.text) for line in b.out(out)] == [("6", "Shared"), ("s", "Reading")]
    assert (b.dead_letters(), b.count("ignored")) == ([], 2)
    b.end()
