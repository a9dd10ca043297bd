"""Why a record is refused: dead letters name the writer's schema, the field, and the symbol of an enum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from moneystate.engine.avro import Malformed
from moneystate.engine.processor import Rejected
from moneystate.records.codec import Codec
from moneystate.records.other_versions import AnyVersion
from moneystate.records.schema_set import SchemaSet
from moneystate.records.shapes import Shapes
from moneystate.registry.client import RegistryClient
from moneystate.registry.confluent import ConfluentFormat
from tests.formats.registry_server import RegistryServer
from tests.formats.values import body_of, framed

OPEN_PAID = {"type": "enum", "name": "Status", "symbols": ["OPEN", "PAID"]}
REFUNDED = {"type": "enum", "name": "Status", "symbols": ["OPEN", "PAID", "REFUNDED"]}


def moved(*fields: tuple[str, Any], **defaults: Any) -> dict[str, Any]:
    made = [
        {"name": name, "type": kind, **({"default": defaults[name]} if name in defaults else {})}
        for name, kind in fields
    ]
    return {"type": "record", "name": "Moved", "namespace": "shop", "fields": made}


def line(status: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Line", "fields": [{"name": "status", "type": status}]}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.mark.parametrize(
    ("ours", "theirs", "record", "detail"),
    [
        (
            moved(("status", OPEN_PAID)),
            moved(("status", REFUNDED)),
            {"status": "REFUNDED"},
            "Moved.status: the symbol REFUNDED is not one of OPEN, PAID",
        ),
        (
            moved(("lines", {"type": "array", "items": line(OPEN_PAID)})),
            moved(("lines", {"type": "array", "items": line(REFUNDED)})),
            {"lines": [{"status": "OPEN"}, {"status": "REFUNDED"}]},
            "Moved.lines[].status: the symbol REFUNDED is not one of OPEN, PAID",
        ),
        (
            moved(("was", {"type": "map", "values": ["null", OPEN_PAID]})),
            moved(("was", {"type": "map", "values": ["null", REFUNDED]})),
            {"was": {"a": None, "b": "REFUNDED"}},
            "Moved.was[]: the symbol REFUNDED is not one of OPEN, PAID",
        ),
        (
            moved(("line", ["null", line(OPEN_PAID)])),
            moved(("line", line(REFUNDED))),
            {"line": {"status": "REFUNDED"}},
            "Moved.line.status: the symbol REFUNDED is not one of OPEN, PAID",
        ),
        (
            moved(("n", "long"), ("more", "string")),
            moved(("n", "long")),
            {"n": 1},
            "Moved.more: not in the writer's schema, and without a default",
        ),
        (moved(("n", "long")), moved(("n", ["null", "long"])), {"n": None}, "Moved.n: written as null, read as long"),
        (moved(("n", "long")), moved(("n", ["string", "int"])), {"n": "x"}, "Moved.n: written as string, read as long"),
    ],
)
def test_a_record_of_another_schema_that_does_not_fit(
    registry: RegistryServer, ours: dict[str, Any], theirs: dict[str, Any], record: dict[str, Any], detail: str
) -> None:
    schemas = SchemaSet([ours], [theirs])
    schema_id = registry.add(theirs)
    confluent = ConfluentFormat(schemas, RegistryClient(registry.url), None, 0.0)
    assert refusal(confluent, framed(schema_id, body_of(theirs, record))) == f"unknown_schema: id {schema_id}: {detail}"
    (fingerprint,) = schemas.others
    value = b"\xc3\x01" + fingerprint + body_of(theirs, record)
    assert refusal(AnyVersion(schemas), value) == f"unknown_schema: {fingerprint.hex()}: {detail}"


def test_damaged_bytes_of_another_schema_name_the_field(registry: RegistryServer) -> None:
    ours = moved(("n", "long"), ("line", line(OPEN_PAID)))
    schema_id = registry.add(ours)
    confluent = ConfluentFormat(SchemaSet([ours]), RegistryClient(registry.url), None, 0.0)
    told = refusal(confluent, framed(schema_id, b"\x02\x08"))
    assert told == f"malformed: id {schema_id}: line.status: an enum has no such symbol"


def refusal(fmt: Any, value: bytes) -> str:
    with pytest.raises(Rejected) as refused:
        fmt(value)
    return str(refused.value)


@dataclass(frozen=True)
class Line:
    status: Literal["OPEN", "PAID"]


@dataclass(frozen=True)
class Moved:
    n: int
    line: Line | None


def codec() -> Codec:
    return Codec(Shapes("shop").record(Moved, "a test"))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"\x02\x02\x08", "line.status: an enum symbol that the schema does not have"),
        (b"\x02\x08", "line: a union branch that the schema does not have"),
        (b"", "n: the record is cut off"),
        (b"\x02\x02", "line.status: a number is cut off"),
    ],
)
def test_damaged_bytes_of_our_own_schema_name_the_field(body: bytes, told: str) -> None:
    with pytest.raises(Malformed) as refused:
        codec().decode(codec().header + body)
    assert str(refused.value) == told


def test_an_unknown_symbol_in_a_plain_services_json() -> None:
    with pytest.raises(Malformed, match=r"^line\.status: not one of OPEN, PAID, but REFUNDED$"):
        codec().from_json_text('{"n":1,"line":{"status":"REFUNDED"}}')
    with pytest.raises(Malformed, match=r"^line\.status: not one of OPEN, PAID$"):  # a value, which may be personal
        codec().from_json_text('{"n":1,"line":{"status":"Eve, 12 Hill Rd"}}')
