"""Data keeps each number as the JSON text has it."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pytest

from moneystate.records import exact_json
from moneystate.records.exact_json import WrittenNumber

NUMBERS = [
    "0", "-0", "-0.0", "7", "9007199254740993", "-9223372036854775808", "1234567890123456.7891", "1.10", "1.1", "1e5",
    "1E+5", "1e400", "0.1", "5e-324", "1e-9999999999999999999", "1" * 400,
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_written_as_it_was_read(number: str) -> None:
    text = f'{{"n": {number}, "list": [{number}, {{"é": {number}}}], "text": "{number}"}}'
    data = exact_json.loads(text)
    assert exact_json.dumps(data) == text
    assert exact_json.dumps(pickle.loads(pickle.dumps(data))) == text


def test_whole_numbers_are_int_and_others_compare_as_numbers() -> None:
    whole, half, exact = exact_json.loads("[7, 0.5, 0.10]")
    assert (whole, type(whole)) == (7, int)
    assert half == 0.5
    assert exact == Decimal("0.1")
    assert exact_json.dumps({"sum": exact + 1}) == '{"sum": 1.10}'


def test_lines_and_order_of_members() -> None:
    data = {"b": [1, WrittenNumber("2.50")], "a": {}, "c": [], "d": {"x": None}}
    text = '{\n  "a": {},\n  "b": [\n    1,\n    2.50\n  ],\n  "c": [],\n  "d": {\n    "x": null\n  }\n}'
    assert exact_json.dumps(data, indent="  ", sort=True) == text
    assert exact_json.dumps(data) == '{"b": [1, 2.50], "a": {}, "c": [], "d": {"x": null}}'
    assert exact_json.dumps("é", ascii=True) == '"\\u00e9"'
