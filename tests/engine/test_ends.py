"""The end-of-batch record to the byte, and what programs of each version make of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.engine import ends
from moneystate.engine.ends import EndOfBatch

GOLDEN = Path(__file__).parent.parent / "golden" / "changelog"
NEWEST = EndOfBatch("e-1", 4, 123, (0, 2), 4, 7, 2, {"dedup_ttl_ms": 3_600_000})


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes().rstrip(b"\n")


def test_the_bytes_are_the_golden_ones() -> None:
    assert NEWEST.encode() == golden("end-v2")
    assert ends.decode(golden("end-v2")) == NEWEST


@pytest.mark.parametrize(("name", "total", "records"), [("end-v1-first", None, None), ("end-v1", 4, 7)])
def test_what_earlier_versions_wrote_is_read_and_says_what_it_says(
    name: str, total: int | None, records: int | None
) -> None:
    assert ends.decode(golden(name)) == EndOfBatch("e-1", 4, 123, (0, 2), total, records, None, {})


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"epoch": "e", "batch": 1, "watermark": 2}'])
def test_anything_else_is_refused(value: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        ends.decode(value)
