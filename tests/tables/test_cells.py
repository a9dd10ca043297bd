"""What a cell of text becomes, and which cells are refused."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from moneystate.engine.avro import Malformed
from moneystate.records.json_number import Number
from moneystate.tables.cells import cell_readers

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("text", " a ", " a "),
        ("int", "007", "7"),
        ("int", "-0", "-0"),
        ("int", "+12", "12"),
        ("number", "1.10", "1.10"),
        ("number", "-00.5", "-0.5"),
        ("number", "1e3", "1e3"),
        ("number", "12345678901234567890.123456789", "12345678901234567890.123456789"),
        ("bool", "t", True),
        ("bool", "FALSE", False),
        ("time", "2026-01-31T12:00:00.1239Z", "2026-01-31T12:00:00.123Z"),
        ("time", "2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00.000Z"),
        ("date", "2026-01-31", "2026-01-31"),
        ("json", '{"b":[1.50,null]}', {"b": ["1.50", None]}),
    ],
)
def test_a_cell_is_read_as_its_type_says_and_no_number_changes(kind: str, text: str, value: Any) -> None:
    read = cell_readers(None)[kind](text)
    assert read == value
    assert type(read) is Number or kind not in ("int", "number")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.0"), ("int", " 1"), ("int", "1_000"), ("int", "٣"), ("int", "9" * 1_001),
        ("number", "NaN"), ("number", "1,5"), ("number", ".5"), ("number", "0x1"),
        ("bool", "1"), ("bool", "yes"),
        ("time", "2026-01-31"), ("time", "12:00"), ("time", "2026-01-31T12:00:00"), ("time", "1769860800000"),
        ("date", "2026-02-30"), ("date", "20260131"), ("date", "2026-01-31T00:00:00Z"),
        ("json", "{"), ("json", '{"a":1,"a":2}'), ("json", "NaN"),
    ],
)  # fmt: skip
def test_a_cell_of_another_type_is_refused(kind: str, text: str) -> None:
    with pytest.raises(Malformed):
        cell_readers(None)[kind](text)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-31 12:00", "2026-01-31T11:00:00.000Z"),
        ("2026-07-31T12:00:00.5", "2026-07-31T10:00:00.500Z"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z"),
    ],
)
def test_a_time_without_an_offset_needs_a_zone(text: str, utc: str) -> None:
    assert cell_readers(BERLIN)["time"](text) == utc
