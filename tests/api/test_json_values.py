"""Values in JSON that are read once give what two readings give: one for the canonical form, one for time and key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import moneystate as ms
from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.processor import Decoded, Rejected
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.json_topic import JSON, JsonTopic
from moneystate.runtime.plan import Plan

service = ms.Service("values", namespace="values.v1")


@dataclass(frozen=True)
class Sale:
    shop: str
    number: int
    at: ms.Millis
    amount: Annotated[ms.Decimal, ms.Digits(6, 2)]
    body: ms.Json | None = None


@dataclass(frozen=True)
class Price:
    amount: Annotated[ms.Decimal, ms.Digits(6, 2)]
    at: ms.Millis


@dataclass
class Count:
    n: int = 0


sales = service.input("sales", Sale, key=("shop", "number"), time="at")
prices = service.input("prices", Price, key=lambda price: str(price.amount), time="at")
count = service.value("count", Count)


@service.on(sales, count)
def sold(ctx: ms.Context[Any], sale: Sale, counted: Count) -> None:
    counted.n += 1


@service.on(prices, count)
def priced(ctx: ms.Context[Any], price: Price, counted: Count) -> None:
    counted.n += 1


PLAN = Plan(service)
DECODER = ServiceDecoder(PLAN)
READ = DECODER.values({"sales": JSON, "prices": JSON})
TOPICS = {code: JsonTopic(PLAN, name) for code, name in PLAN.topics.items()}

anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2),
    st.sampled_from(["1970-01-01T00:00:05Z", 5_000, 1.5, 99_999.999, {"b": 1, "a": []}, -(2**63), 2**63]),
)  # fmt: skip
documents = st.dictionaries(st.sampled_from(["shop", "number", "at", "amount", "body", "type", "more"]), anything)
complete = st.fixed_dictionaries(
    {
        "shop": st.text(max_size=3),
        "number": st.integers(-(2**63), 2**63 - 1),
        "at": st.integers(0, 10**12),
        "amount": st.sampled_from([1, 1.5, 12.25, -0.5]),
        "body": st.one_of(st.none(), anything),
    }
)


def twice(code: int, value: bytes) -> Decoded:
    canonical = TOPICS[code].to_canonical(value)
    return DECODER.decode(code, canonical)


def told(read: Any) -> object:
    try:
        return read()
    except Rejected as e:
        return e.reason, e.detail


@given(st.sampled_from(sorted(READ)), st.one_of(documents, complete))
def test_one_reading_gives_what_two_give(code: int, document: dict[str, Any]) -> None:
    value = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert told(lambda: READ[code](value)) == told(lambda: twice(code, value))


def test_a_key_that_a_function_makes_is_made_of_the_canonical_record() -> None:
    value = b'{"amount": 1.5, "at": 5}'
    canonical, time, key = READ[PLAN.codes["prices"]](value)
    assert (time, key) == (5, b"1.50")
    assert PLAN.inputs[PLAN.codes["prices"]][canonical[:HEADER_BYTES]].codec.decode(canonical).amount == Decimal("1.50")


@pytest.mark.parametrize("topic", ["sales", "prices"])
def test_a_heartbeat_has_no_key(topic: str) -> None:
    code = PLAN.codes[topic]
    value = b'{"type": "Heartbeat", "processedAt": "1970-01-01T00:00:09Z"}'
    assert READ[code](value)[1:] == (9_000, None)
    assert READ[code](value) == twice(code, value)


def test_avro_with_other_json_text_gets_canonical_text() -> None:
    """A step reads JSON fields without checking them again."""
    code = PLAN.codes["sales"]
    (planned,) = PLAN.inputs[code].values()
    sale = Sale("a", 1, 5, Decimal(2), ms.Json('{"a":[1,1e5],"b":"x"}'))
    canonical = planned.codec.encode(sale)
    written = canonical.replace(b'*{"a":[1,1e5],"b":"x"}', b':{ "b" :"\\u0078","a":[1, 1e5]}')
    assert written != canonical
    assert DECODER.decode(code, written) == DECODER.decode(code, canonical) == (canonical, 5, b'["a","1"]')
