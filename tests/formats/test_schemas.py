"""The schema set, and the strict check of bodies that both formats rely on."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.engine.avro import long_bytes
from moneystate.engine.processor import Rejected
from moneystate.errors import SetupError
from moneystate.records.avro_bodies import check_body, skip_of
from moneystate.records.avro_types import parse
from moneystate.records.schema_set import SchemaSet
from moneystate.runtime import folders
from moneystate.runtime.folders import avro_root, folder_of
from tests.budget import examples
from tests.enrichment.jobs import SERVICE
from tests.formats.values import BY_NAME, NAMES, SET, any_datum, canonical, payment, reason

SETTINGS = settings(max_examples=examples(60), database=None)


def crc_64_avro(data: bytes) -> int:
    """Bit by bit from the text of the specification (Avro 1.12, "Schema Fingerprints")."""
    empty = 0xC15D213AA4D7A795
    table = []
    for index in range(256):
        entry = index
        for _ in range(8):
            entry = (entry >> 1) ^ (empty & -(entry & 1))
        table.append(entry)
    crc = empty
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc


def test_every_released_schema_is_known_by_its_name() -> None:
    assert sorted(file.stem for file in folder_of(SERVICE).glob("events/*.avsc")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_fingerprints_are_little_endian_crc_64_avro(name: str) -> None:
    type_schema = BY_NAME[name]
    assert type_schema.fingerprint == crc_64_avro(type_schema.canonical_form.encode()).to_bytes(8, "little")
    assert SET.by_fingerprint[type_schema.fingerprint] is type_schema
    assert type_schema.prefix == b"\xc3\x01" + type_schema.fingerprint


def test_the_schemas_of_an_installed_wheel_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "moneystate"
    monkeypatch.setattr(folders, "PACKAGE", package)
    assert avro_root() == tmp_path / "avro"
    (package / "_avro").mkdir(parents=True)
    assert avro_root() == package / "_avro"


@pytest.mark.parametrize("source", ["string", {"type": "record", "name": "NoFields"}, {"type": "enum", "name": "E"}])
def test_only_schemas_of_records_make_a_set(source: Any) -> None:
    with pytest.raises(SetupError):
        SchemaSet([source])


def test_a_schema_set_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(SET))
    assert sorted(again.by_fingerprint) == sorted(SET.by_fingerprint)
    assert again.open(payment(SET)).name == "PaymentEvent"


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(data=st.data())
def test_what_fastavro_writes_passes_and_no_cut_or_addition_does(name: str, data: st.DataObject) -> None:
    type_schema = BY_NAME[name]
    value = canonical(type_schema, data.draw(any_datum(type_schema)))
    assert SET.open(value) is type_schema
    assert reason(SET.open, value + b"\x00") == "trailing_bytes"
    cut = data.draw(st.integers(0, len(value) - 1))
    assert reason(SET.open, value[:cut]) == "malformed"


@SETTINGS
@given(body=st.binary(max_size=60), name=st.sampled_from(NAMES))
def test_arbitrary_bytes_are_accepted_or_refused_and_nothing_else(body: bytes, name: str) -> None:
    assert reason(SET.open, BY_NAME[name].prefix + body) in ("", "malformed", "trailing_bytes")


def test_headers() -> None:
    assert reason(SET.open, None) == "null_value"
    assert reason(SET.open, b"") == "malformed"
    assert reason(SET.open, b"\xc3\x02" + payment(SET)[2:]) == "malformed"
    assert reason(SET.open, b"\xc3\x01" + bytes(8)) == "unknown_schema"


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}
INTS = {"type": "array", "items": "int"}


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ("boolean", b"\x02"),
        ("boolean", b""),
        ("int", long_bytes(2**31)),
        ("int", long_bytes(-(2**31) - 1)),
        ("long", b"\xff" * 9 + b"\x02"),
        ("long", b"\xff" * 11),
        ("long", b"\x80"),
        ("float", bytes(3)),
        ("double", bytes(7)),
        ("string", long_bytes(-1)),
        ("string", long_bytes(3) + b"ab"),
        ("string", long_bytes(1) + b"\xff"),
        ("string", long_bytes(3) + b"\xed\xa0\x80"),
        ("bytes", long_bytes(2**62)),
        (["null", "int"], long_bytes(2)),
        (["null", "int"], long_bytes(-1)),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, long_bytes(2)),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, long_bytes(-1)),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab"),
        (DECIMAL, long_bytes(0)),
        (DECIMAL, long_bytes(9) + (10**20).to_bytes(9, "big")),
        (DECIMAL, long_bytes(9) + (-(10**20)).to_bytes(9, "big", signed=True)),
        (INTS, long_bytes(2) + long_bytes(1) + b"\x00"),
        (INTS, long_bytes(-1) + long_bytes(2) + long_bytes(1) + b"\x00"),
        (INTS, long_bytes(-1) + long_bytes(-1) + long_bytes(1) + b"\x00"),
        (INTS, long_bytes(1) + long_bytes(1)),
        ({"type": "array", "items": "null"}, long_bytes(2**40) + b"\x00"),
        ({"type": "map", "values": "int"}, long_bytes(1) + long_bytes(-5) + b"\x00"),
        (NODE, b"\x02" * 100_000 + b"\x00"),
    ],
)
def test_bodies_that_are_not_what_the_schema_says_are_malformed(schema: Any, body: bytes) -> None:
    with pytest.raises(Rejected) as refused:
        check_body(skip_of(parse(schema)), body, 0)
    assert refused.value.reason == "malformed"


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ("null", b""),
        ("long", b"\xff" * 9 + b"\x01"),
        ("float", bytes(4)),
        ("double", bytes(8)),
        ("bytes", b"\x02\xff"),
        (DECIMAL, long_bytes(9) + (10**20 - 1).to_bytes(9, "big")),
        (DECIMAL, long_bytes(12) + bytes(11) + b"\x05"),
        (INTS, long_bytes(-2) + long_bytes(2) + b"\x02\x04" + long_bytes(1) + b"\x06" + b"\x00"),
        ({"type": "map", "values": "int"}, long_bytes(1) + b"\x02k" + b"\x08" + b"\x00"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab"),
        ({"type": "string", "avro.java.string": "String"}, b"\x02x"),
        (NODE, b"\x02\x02\x00"),
    ],
)
def test_every_kind_of_type_is_walked(schema: Any, body: bytes) -> None:
    skip = skip_of(parse(schema))
    check_body(skip, body, 0)
    check_body(skip, b"before" + body, len(b"before"))


def test_a_refusal_survives_pickling_and_reads_well() -> None:
    again = pickle.loads(pickle.dumps(Rejected("malformed", "amount: not a number")))
    assert (again.reason, again.detail) == ("malformed", "amount: not a number")
    assert str(again) == "malformed: amount: not a number"
    assert str(Rejected("null_value")) == "null_value"
