"""Schemas in a registry that use the types of other subjects, over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from moneystate.engine.processor import Rejected
from moneystate.errors import UnknownSchemaId
from moneystate.records.schema_set import SchemaSet
from tests.formats.registry_server import RegistryServer, made, referring
from tests.formats.values import body_of, canonical, framed, named

CITY = {"type": "record", "name": "City", "namespace": "geo", "fields": [{"name": "name", "type": "string"}]}
KIND = {"type": "enum", "name": "Kind", "namespace": "geo", "symbols": ["HOME", "WORK"]}
ADDRESS = {
    "type": "record", "name": "Address", "namespace": "crm",
    "fields": [{"name": "city", "type": "geo.City"}, {"name": "kind", "type": "geo.Kind"}],
}  # fmt: skip
ORDER = {
    "type": "record", "name": "Order", "namespace": "crm",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "kind", "type": ["null", "geo.Kind"]},
        {"name": "to", "type": "Address"},  # in its own namespace
        {"name": "others", "type": {"type": "array", "items": "crm.Address"}},
        {"name": "cities", "type": {"type": "map", "values": "geo.City"}},
    ],
}  # fmt: skip
WHOLE = {
    **ORDER,
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "kind", "type": ["null", KIND]},
        {"name": "to", "type": {**ADDRESS, "fields": [{"name": "city", "type": CITY}, ADDRESS["fields"][1]]}},
        *ORDER["fields"][3:],
    ],
}
BONN = {"city": {"name": "Bonn"}, "kind": "HOME"}
DATUM = {"id": "o", "kind": "WORK", "to": BONN, "others": [BONN], "cities": {"a": {"name": "Ulm"}}}
SET = SchemaSet([WHOLE])


def shop(registry: RegistryServer) -> int:
    """The id of the order, which refers to the address, which refers to city and kind."""
    registry.add_version("geo%2Fcity/versions/3", CITY)
    registry.add_version("kind/versions/1", KIND)
    registry.add_version("address/versions/2", ADDRESS, "geo%2Fcity/versions/3", "kind/versions/1")
    return registry.add(ORDER, references=referring("address/versions/2", "kind/versions/1"))


def value_of(schema_id: int) -> bytes:
    return framed(schema_id, body_of(WHOLE, DATUM))


def test_a_schema_is_read_with_all_that_it_refers_to(registry: RegistryServer) -> None:
    value = value_of(shop(registry))
    read = made(registry, schemas=SET)
    assert read(value) == canonical(named(SET, "Order"), DATUM)
    asked = sorted(registry.state.requests)
    assert asked == [
        "GET /schemas/ids/1000", "GET /subjects/address/versions/2", "GET /subjects/geo%2Fcity/versions/3",
        "GET /subjects/kind/versions/1",
    ]  # fmt: skip
    made(registry, schemas=SET)(value)
    assert sorted(registry.state.requests) == asked


def test_a_schema_that_was_deleted_is_found(registry: RegistryServer) -> None:
    value = value_of(shop(registry))
    registry.state.deleted.add("kind/versions/1")
    assert made(registry, schemas=SET)(value)


def test_a_version_that_the_registry_does_not_know_yet_is_waited_for(registry: RegistryServer) -> None:
    value = value_of(shop(registry))
    late = registry.state.versions.pop("kind/versions/1")
    waits: list[float] = []
    with pytest.raises(UnknownSchemaId, match="expected the schema of kind, version 1, it knew no such version for"):
        made(registry, waits, schemas=SET)(value)
    assert sum(waits) >= 60
    registry.state.versions["kind/versions/1"] = late
    assert made(registry, schemas=SET)(value)


def refusal(registry: RegistryServer, schema_id: int) -> str:
    with pytest.raises(Rejected) as refused:
        made(registry, schemas=SET)(value_of(schema_id))
    assert refused.value.reason == "unknown_schema"
    return refused.value.detail


def test_a_cycle_is_refused(registry: RegistryServer) -> None:
    schema_id = shop(registry)
    registry.add_version("kind/versions/1", KIND, "address/versions/2")
    assert refusal(registry, schema_id) == "id 1000: its references form a cycle: address version 2"


@pytest.mark.parametrize(
    ("other", "more", "says"),
    [
        ("{", {}, "kind version 1 cannot be read"),
        (KIND, {"schemaType": "PROTOBUF"}, "refers to kind version 1, which is PROTOBUF"),
        ({**KIND, "name": "Other"}, {}, "its writer schema cannot be read"),
        ([KIND, {**CITY, "fields": []}], {}, "refers to two types geo.City"),
        (KIND, {"references": [{"name": "x", "subject": "y"}]}, "refers to no version of y"),
        (KIND, {"references": ["x"]}, "refers to no version of None"),
        ({**KIND, "type": "record", "fields": [{"name": "x"}]}, {}, "cannot be read"),
    ],
)
def test_what_no_reader_could_use_is_refused(registry: RegistryServer, other: Any, more: Any, says: str) -> None:
    schema_id = shop(registry)
    registry.add_version("kind/versions/1", other, **more)
    assert says in refusal(registry, schema_id)


def test_a_chain_without_an_end_is_refused(registry: RegistryServer) -> None:
    for n in range(60):
        registry.add_version(f"s{n}/versions/1", CITY, f"s{n + 1}/versions/1")
    assert "levels of references" in refusal(registry, registry.add(ORDER, references=referring("s0/versions/1")))
