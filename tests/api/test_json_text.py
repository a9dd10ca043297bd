"""Any JSON, kept exactly: what decodes, and its canonical text."""

from __future__ import annotations

import json
import pickle
import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.records.json_value import Json
from tests.api import json_checker
from tests.api.values import json_values
from tests.budget import examples

PIECES = [
    *['{"', '":', "{", "}", "[", "]", ",", ":", '"', " ", "\t", "\n", "\u00a0", "0", "-", "1", "25", ".5", "1e+7"],
    *["E-", "+", "true", "null", "false", "NaN", "Infinity", "a", "b", "é", "😀", "\x7f", "\x01", "\ufeff", "٣"],
    *["\\u0041", "\\u00e9", "\\ud83d", "\\ude00", "\\uD83D\\uDE00", "\\u001f", "\\/", "\\b", "\\x", "\\"],
]  # fmt: skip


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


def of_checker(text: str) -> str | None:
    try:
        return json_checker.canonical(text)
    except ValueError:
        return None


def of_json(text: str) -> str | None:
    try:
        return Json(text).text
    except ValueError:
        return None


@given(json_values, st.integers(0, 10**6), st.data())
def test_a_second_reader_gives_the_same_canonical_text(value: object, seed: int, data: st.DataObject) -> None:
    """Reads texts as others write them, and such with a piece put in or taken out."""
    chance = random.Random(seed)
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, 1)), default=str)
    assert of_json(text) == of_checker(text) is not None
    at = data.draw(st.integers(0, len(text)))
    changed = text[:at] + data.draw(st.sampled_from(["", *PIECES])) + text[at + data.draw(st.integers(0, 2)) :]
    assert of_json(changed) == of_checker(changed)


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(PIECES), max_size=9))
def test_a_second_reader_takes_and_refuses_the_same_texts(pieces: list[str]) -> None:
    for text in ("".join(pieces), f'["{"".join(pieces)}"]', '{"a":' + "".join(pieces) + "}"):
        assert of_json(text) == of_checker(text)


@pytest.mark.parametrize("levels", [1, 99, 100, 101, 300])
@pytest.mark.parametrize("digits", [1, 999, 1_000, 1_001])
def test_a_second_reader_has_the_same_limits(levels: int, digits: int) -> None:
    for number in ("1" * digits, "-" + "1" * digits, f"1e{'1' * (digits - 1)}" if digits > 1 else "1"):
        text = '{"a":[' * (levels // 2) + "[" * (levels % 2) + number + "]" * (levels % 2) + "]}" * (levels // 2)
        assert of_json(text) == of_checker(text)
        assert (of_json(text) is not None) == (levels <= 100 and digits <= 1_000)


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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e99999999999999999", Decimal("1e99999999999999999")),
        ("1e1000000000000000000", Decimal("Infinity")),
        ("-2.5E+" + "9" * 900, Decimal("-Infinity")),
        ("1e-" + "9" * 900, Decimal(0)),
        ("0e" + "9" * 900, Decimal(0)),
    ],
)
def test_a_number_of_any_exponent_has_a_value(text: str, value: Decimal) -> None:
    assert Json(f'{{"n":{text}}}').value() == {"n": value}


def test_members_are_those_of_an_object() -> None:
    assert Json('{"b":1.0,"a":{"c":[]}}').members() == {"a": Json('{"c":[]}'), "b": Json("1.0")}
    assert list(Json('{"b":1,"a":2}').members()) == ["a", "b"]
    assert Json("[1]").members() == Json("null").members() == Json('"a"').members() == {}


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4))
def test_the_text_of_a_member_is_its_canonical_text(value: dict[str, object]) -> None:
    document = Json.of(value)
    assert document.members() == {name: Json.of(item) for name, item in value.items()}
    assert list(document.members()) == sorted(value)


def test_what_json_does_not_have_is_refused() -> None:
    for value in ({1: 2}, {"a": object()}, b"x", {1, 2}):
        with pytest.raises(TypeError):
            Json.of(value)
    with pytest.raises(ValueError, match="NaN"):
        Json.of(float("nan"))
    with pytest.raises(AttributeError):
        Json("1").text = "2"
