"""What values of Python become, as Parquet and databases give them."""

from __future__ import annotations

import datetime as dt
import ipaddress
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from moneystate.engine.avro import Malformed
from moneystate.records.json_number import Number
from moneystate.records.json_text import canonical_text
from moneystate.tables.documents import DocumentMaker

UTC = ZoneInfo("UTC")


class OwnText(str):
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (2**70, "1180591620717411303424"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (Decimal("1.10"), "1.10"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.0001"), "-0.0001"),
        (Number("1.50"), "1.50"),
        ("a", '"a"'),
        (OwnText("a"), '"a"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (b"\x00\xff", '"AP8="'),
        (memoryview(b"a"), '"YQ=="'),
        (dt.date(2026, 1, 31), '"2026-01-31"'),
        (dt.time(1, 2, 3), '"01:02:03"'),
        (dt.datetime(2026, 1, 31, 12, 0, 0, 123_999, tzinfo=dt.UTC), '"2026-01-31T12:00:00.123Z"'),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_900, tzinfo=dt.UTC), '"1969-12-31T23:59:59.999Z"'),
        (dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))), '"2026-01-31T10:00:00.000Z"'),
        ([1, None, "x"], '[1,null,"x"]'),
        ({"b": Decimal("2.0"), "a": [False]}, '{"a":[false],"b":2.0}'),
    ],
)
def test_a_value_becomes_json_and_no_number_changes(value: Any, text: str) -> None:
    assert canonical_text(DocumentMaker(None).value(value)) == text


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), Decimal("NaN"), Decimal("1E+2000"), Decimal("1E-2000"), dt.timedelta(1),
        ipaddress.ip_address("::1"), [object()], dt.datetime(2026, 1, 31),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_what_json_cannot_represent_is_refused(value: Any) -> None:
    with pytest.raises(Malformed):
        DocumentMaker(None).value(value)


def test_a_time_without_a_zone_has_that_of_the_flag() -> None:
    assert DocumentMaker(UTC).value(dt.datetime(2026, 1, 31)) == "2026-01-31T00:00:00.000Z"  # noqa: DTZ001
