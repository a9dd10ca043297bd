"""Dead letters of steps: the original record with its key, headers and timestamp, whatever the step saw of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import moneystate as ms
from moneystate.engine.deadletter import Letter, place_of_step, restored, write
from moneystate.testing import Bench


@dataclass(frozen=True)
class Paid:
    k: str
    cents: int
    at_ms: ms.Millis


def bench(format: str) -> Bench:
    service: Any = ms.Service("paid")
    paid = service.input("payments", Paid, key="k", time="at_ms", format=format)

    def take(ctx: Any, e: Paid) -> None:
        if e.cents < 0:
            raise ms.Reject("negative", f"{e.cents} cents")
        ctx.dead_letter("noted", "")

    service.on(paid)(take)
    return Bench(service, bound_ms=0)


def letters(b: Bench) -> list[tuple[bytes | None, bytes | None, dict[str, bytes | None]]]:
    b.dead_letters()
    return [(k, v, dict(h)) for stream, k, v, h in b.run.sim.outputs if stream == b.plan.dead_letter_stream]


@pytest.mark.parametrize("reason", ["negative", "noted"])
def test_a_record_in_json_is_written_as_it_was_sent(reason: str) -> None:
    b = bench("json")
    cents = "-1" if reason == "negative" else "1"
    text = '{ "atMs": 5, "k":"a", "cents": ' + cents + ', "more": [1.50] }'
    b.send_raw("payments", text, key="partition key", headers={"trace": "7"}, timestamp_ms=1_700_000_000_000)
    ((key, value, headers),) = letters(b)
    assert (key, value, headers["trace"]) == (b"partition key", text.encode(), b"7")
    assert headers["moneystate.reason"] == reason.encode()
    assert headers["moneystate.detail"] == (b"-1 cents" if reason == "negative" else b"")
    assert headers["moneystate.timestamp"] == b"1700000000000"
    assert (headers["moneystate.topic"], headers["moneystate.offset"]) == (b"payments", b"0")
    assert headers["moneystate.origin"] == b"step"


def test_in_any_batches_letters_have_their_own_records() -> None:
    b = bench("json")
    sent = [f'{{"k":"{n % 3}","cents":-{n},"atMs":{n}}}' for n in range(1, 40)]
    for text in sent:
        b.send_raw("payments", text)
    assert sorted(value or b"" for _, value, _ in letters(b)) == sorted(text.encode() for text in sent)


def test_a_letter_of_the_source_is_not_read_again() -> None:
    b = bench("json")
    b.send_raw("payments", "{", key="a")
    ((_, value, headers),) = letters(b)
    assert (value, "moneystate.origin" in headers) == (b"{", False)
    assert place_of_step([*headers.items()]) is None


def test_a_record_that_is_too_large_has_its_digest() -> None:
    _, _, headers = write(Letter("t", 0, 7, -1, b"k", b"canonical", []), "negative", "")
    headers.append(("moneystate.origin", b"step"))
    assert place_of_step(headers) == ("t", 0, 7)
    key, value, again = restored(headers, Letter("t", 0, 7, 5, b"key", b"x" * 1_000_000, []))
    assert (key, value, dict(again)["moneystate.value-bytes"]) == (None, None, b"1000000")
