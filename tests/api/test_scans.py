"""The source takes time and key from a record without decoding it, with the verdict and the result of decoding."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moneystate as ms
from moneystate.engine.processor import Decoded, Rejected
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.plan import Plan
from tests.budget import examples


@dataclass(frozen=True)
class Paid:
    note: str
    count: int
    customer: str
    at: ms.Millis
    raw: bytes
    ok: bool
    more: str | None
    limit: int | None


@dataclass
class Made:
    id: str
    at: ms.Millis

    def __post_init__(self) -> None:
        if self.id == "x":
            raise ms.Reject("x")


def made(key: str = "customer") -> ms.Service[None]:
    service = ms.Service("scanned")
    paid = service.input("paid", Paid, key=key, time="at")
    out = service.output("out", Paid, key="customer")

    @service.on(paid)
    def step(ctx: ms.Context[None], e: Paid) -> None:
        ctx.emit(out, e)

    return service


PLAN = Plan(made())
DECODING = Plan(made())
for planned in DECODING.inputs[0].values():
    planned.scan = None
CODEC = PLAN.codecs[Paid]
longs = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200))
times = st.one_of(st.integers(-(2**45), 2**45), longs)
texts = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), st.sampled_from(["", "a" * 70_000]))
records = st.builds(
    Paid, texts, longs, texts, times, st.binary(max_size=80), st.booleans(), st.none() | texts, st.none() | longs
)


def verdict(plan: Plan, value: bytes) -> Decoded | tuple[object, ...]:
    try:
        return ServiceDecoder(plan).decode(0, value)
    except Rejected as e:
        return e.args


def damaged(value: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    out = bytearray(value)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(10, len(out)) if len(out) > 10 else 10
        what = chance.randrange(4)
        if what == 0:
            del out[at:]
        elif what == 1:
            out[at:at] = chance.randbytes(chance.randrange(1, 4))
        else:
            out[at : at + 1] = bytes([chance.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, chance.randrange(256)])])
    return bytes(out)


@settings(max_examples=examples(1_500), deadline=None)
@given(records, st.integers(0, 2**32))
def test_a_scanned_record_has_the_time_the_key_and_the_verdict_of_a_decoded_one(record: Paid, seed: int) -> None:
    value = CODEC.encode(record)
    for one in (value, value + b"\x00", damaged(value, seed)):
        assert verdict(PLAN, one) == verdict(DECODING, one)


def test_records_of_plain_fields_are_scanned() -> None:
    (planned,) = PLAN.inputs[0].values()
    assert planned.scan is not None
    value = CODEC.encode(Paid("n", 1, "eve", 5, b"", True, None, 2**61))
    assert planned.scan.decoded(value) == (value, 5, b"eve")


@pytest.mark.parametrize("key", ["more", "count", "limit"])
def test_a_key_that_is_no_string_is_decoded(key: str) -> None:
    (planned,) = Plan(made(key)).inputs[0].values()
    assert planned.scan is None


def test_a_record_whose_construction_runs_code_is_decoded() -> None:
    service = ms.Service("constructing")
    made_input = service.input("made", Made, key="id", time="at")

    @service.on(made_input)
    def step(ctx: ms.Context[None], e: Made) -> None:
        pass

    plan = Plan(service)
    (planned,) = plan.inputs[0].values()
    assert planned.scan is None
    with pytest.raises(ms.Reject):
        ServiceDecoder(plan).decode(0, planned.codec.header + b"\x02x\x02")
