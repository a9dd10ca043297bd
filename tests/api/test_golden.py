"""State of services, to the byte: entries written by this program are those of the golden file, and are read."""

from __future__ import annotations

import json
from pathlib import Path

from moneystate.runtime.cells import Cell
from moneystate.runtime.layout import Place, owner_of, place_of
from moneystate.testing import Bench
from tests.api.services import basket
from tests.api.services.basket import Added, Looked

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "services" / "basket-v1.json"


def entries() -> dict[str, str]:
    bench = Bench(basket.service, bound_ms=2_000)
    bench.send(Added("é", "x", 300, 1_000), Added("é", "", 1, 1_500), Looked(["b", "é"], 2_000))
    return {key.hex(): value.hex() for key, value in bench.entries()}


def test_entries_are_those_of_the_golden_file() -> None:
    assert entries() == json.loads(GOLDEN.read_text())


def test_golden_entries_are_read() -> None:
    plan = Bench(basket.service).plan
    values = {}
    for key, value in json.loads(GOLDEN.read_text()).items():
        place = place_of(bytes.fromhex(key))
        assert place is not None
        kind = plan.by_prefix[place.kind + bytes([len(place.name)]) + place.name.encode()]
        cell = Cell(bytes.fromhex(key), kind, place.owner, place.id)
        cell.load(bytes.fromhex(value))
        cell.decode()
        values[place.name, place.owner.decode(), place.id.decode()] = cell.value
        assert cell.encoded() == bytes.fromhex(value)
    assert values["total", "é", ""] == basket.Total(301, ["x", ""])
    assert values["items", "é", "x"] == basket.Item(300)
    assert values["forget", "é", "x"] == (11_000, 1_000, 0, 0, 0)
    assert values["visits", "b", ""] == basket.Visit(1)


def test_a_key_is_taken_apart_or_is_none_of_a_services() -> None:
    assert place_of(b"m\x05items\x00\x01bx\x00y") == Place(b"m", "items", b"b", b"x\x00y")
    assert owner_of(b"v\x05total\x00\x02\xc3\xa9") == "é".encode()
    for key in (
        b"",
        b"c",
        b"b123",
        b"u",
        b"m\x05it",
        b"m\x05items",
        b"m\x05items\x00",
        b"m\x05items\x00\x05b",
        b"x" * 20,
    ):
        assert place_of(key) is None
