"""Any JSON, kept exactly: what decodes, and its canonical text."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import given

from moneystate.api.json_text import Json
from tests.api.values import json_values


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (' { "b" : 1 , "a" : [ ] } ', '{"a":[],"b":1}'),
        ("[1.50,1e5,-0,0.10E+2]", "[1.50,1e5,-0,0.10E+2]"),
        ('"\\u0041\\/\\b\\u001F\\u007f\\ud83d\\ude00"', '"A/\\b\\u001f\x7f😀"'),
        ('{"\\ufb33":1,"\\ud83d\\ude00":2}', '{"\ufb33":1,"😀":2}'),  # code points, not UTF-16 units
        ("true", "true"),
        ("null", "null"),
        ('""', '""'),
    ],
)
def test_the_canonical_text(text: str, canonical: str) -> None:
    assert Json(text).text == canonical


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}', '[{"a":{"b":1,"b":2}}]', "NaN", "[Infinity]", "-Infinity", '"\\ud800"', '{"\\udc00":1}',
        '"\ud800"', "", " ", "01", "1.", ".5", "+1", "[1,]", '{"a":1,}', "'a'", '"\t"', "[1] 2", "\ufeff[]",
        "[1]\u00a0",
        "[" * 101 + "]" * 101, '{"a":' * 101 + "1" + "}" * 101, "[" * 100_000, "1" * 1001, "[-0." + "1" * 1000 + "]",
        "1e" + "1" * 1000,
    ],
)  # fmt: skip
def test_what_does_not_decode(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        Json(text)
    assert not isinstance(refused.value, RecursionError)


def test_just_within_the_limits() -> None:
    levels = "[" * 100 + "]" * 100
    assert Json(levels).text == levels
    number = "-0." + "1" * 999
    assert Json(number).text == number


def test_equality_and_hash_go_by_the_canonical_text() -> None:
    assert Json('{"a":1,"b":2}') == Json('{ "b":2, "a":1 }')
    assert len({Json("[1]"), Json("[ 1 ]")}) == 1
    assert Json("1.0") != Json("1")
    assert Json("1") != "1"


@given(json_values)
def test_pythons_objects_come_back(value: object) -> None:
    made = Json.of(value)
    assert made.value() == value
    assert json.loads(made.text) == value
    assert Json(made.text) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_numbers_come_back_as_they_were_written() -> None:
    assert Json.of(Decimal("1.50")).text == "1.50"
    assert str(Json("1.50").value()) == "1.50"
    assert Json.of({"a": (1, Json("[1.0]"))}).text == '{"a":[1,[1.0]]}'


def test_what_json_does_not_have_is_refused() -> None:
    for value in ({1: 2}, {"a": object()}, b"x", {1, 2}):
        with pytest.raises(TypeError):
            Json.of(value)
    with pytest.raises(ValueError, match="NaN"):
        Json.of(float("nan"))
    with pytest.raises(AttributeError):
        Json("1").text = "2"
