"""Avro's binary form against fastavro's."""

from __future__ import annotations

from io import BytesIO

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine import avro

LONG = fastavro.parse_schema("long")
TEXTS = fastavro.parse_schema({"type": "array", "items": "bytes"})


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_are_fastavros(value: int) -> None:
    out = BytesIO()
    fastavro.schemaless_writer(out, LONG, value)
    assert avro.long_bytes(value) == out.getvalue()
    assert avro.read_long(out.getvalue(), 0) == (value, len(out.getvalue()))


def test_longs_of_every_length() -> None:
    """Each of the lengths has lines of its own in the encoder."""
    for bits in range(64):
        for value in (2**bits - 1, 2**bits // 3, -(2**bits)):
            out = BytesIO()
            fastavro.schemaless_writer(out, LONG, value)
            assert avro.long_bytes(value) == out.getvalue()
            assert avro.read_long(b"x" + avro.long_bytes(value), 1)[0] == value


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02"])
def test_a_number_that_is_cut_off_or_too_large_is_malformed(data: bytes) -> None:
    with pytest.raises(avro.Malformed):
        avro.read_long(data, 0)


@given(st.lists(st.binary(max_size=80), max_size=9))
def test_blocks_are_arrays_to_every_avro_reader(texts: list[bytes]) -> None:
    items = b"".join(avro.string_bytes(text) for text in texts)
    out = bytearray()
    avro.write_block(out, len(texts), items)
    assert fastavro.schemaless_reader(BytesIO(bytes(out)), TEXTS, None) == texts
    assert avro.read_block(bytes(out), 0) == (len(texts), items, len(out))


@pytest.mark.parametrize("data", [b"\x02\x02a\x00", b"\x01\x04\x02a\x01\x04\x02b\x00", b"\x01\x40", b"\x01\x05"])
def test_arrays_in_a_form_that_is_not_ours_are_malformed(data: bytes) -> None:
    with pytest.raises(avro.Malformed):
        avro.read_block(data, 0)


@pytest.mark.parametrize("data", [b"\x04a", b"\x01", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01a"])
def test_a_text_that_reaches_beyond_its_record_is_malformed(data: bytes) -> None:
    with pytest.raises(avro.Malformed):
        avro.read_bytes(data, 0)
