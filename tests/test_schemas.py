"""The constants of the core, which has no Avro library, held to `avro/`; and `avro/`, held to what may never change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from services.engine import fingerprints as engine
from services.enrichment import fingerprints as enrichment

AVRO = Path(__file__).resolve().parents[1] / "avro"
EVENTS = {path.stem: path for folder in ("events", "lookups", "enriched") for path in (AVRO / folder).glob("*.avsc")}
STATE = {path.parent.name: path for path in (AVRO / "state").glob("*/v1.avsc")}

# Fingerprints of the schemas as the contract has them (`shared/contracts/avro`): records with them are in others' logs.
CONTRACT = {
    "ChangeAddressEvent": "6456b3f9b1ee6789",
    "ChangeBirthDateEvent": "ff20a2be3dcc2015",
    "Heartbeat": "00bc02ce2f7a6d09",
    "KindOfWalletEvent": "ae1d7b19f12aa68e",
    "MoneyEnriched": "d8ecbab305ab78d2",
    "OtherUserEvent": "171bc2edfbd4bf3f",
    "PaymentEvent": "93d6c749bb3a4257",
    "SessionLookupCompleted": "34aac530eb9c3a2d",
    "SessionLookupRequested": "dd85951c302cbfea",
    "TransactionEvent": "4a15f36220fbb898",
    "UserSessionClosedEvent": "9c6e409a36132e14",
    "UserSessionCreatedEvent": "6c0a9dc6cc5d7c71",
}
# Released state schemas: entries with them are in checkpoints, changelogs and backups.
RELEASED_STATE = {
    "BufferChunk": "d3ee91e868c659d4",
    "KeyGroupClock": "2d5cd377018963f0",
    "UserPage": "ec1beb7d80d80859",
    "UserState": "524e57f38ee4df5c",
    "WaitingMoney": "f10f5dac6fa4fd09",
}
# Logical types are no part of a fingerprint, yet decide what a number means.
TIMES = {"processedAt", "requestedAt", "completedAt"}
AMOUNTS = {"amount", "openingBalance", "closingBalance"}


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def fingerprint_of(path: Path) -> str:
    return str(fingerprint(to_parsing_canonical_form(load(path)), "CRC-64-AVRO"))


def screaming(name: str) -> str:
    return "".join(f"_{c}" if c.isupper() else c for c in name).strip("_").upper()


def test_the_event_schemas_are_the_contracts() -> None:
    assert {name: fingerprint_of(path) for name, path in EVENTS.items()} == CONTRACT


def test_released_state_schemas_never_change() -> None:
    assert {name: fingerprint_of(path) for name, path in STATE.items()} == RELEASED_STATE


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_the_enrichments_constants_are_the_files_fingerprints(name: str) -> None:
    assert getattr(enrichment, screaming(name)).hex() == "c301" + CONTRACT[name]


@pytest.mark.parametrize("name", sorted(RELEASED_STATE))
def test_the_state_constants_are_the_files_fingerprints(name: str) -> None:
    module: Any = enrichment if hasattr(enrichment, screaming(name)) else engine
    assert getattr(module, screaming(name)).hex() == "c301" + RELEASED_STATE[name]


@pytest.mark.parametrize(
    ("module", "known"), [(engine, {**RELEASED_STATE}), (enrichment, {**CONTRACT, **RELEASED_STATE})]
)
def test_no_constant_is_without_a_schema(module: Any, known: dict[str, str]) -> None:
    constants = {name for name in vars(module) if name.isupper()}
    assert constants <= {screaming(name) for name in known}


def fields_of(schema: Any) -> list[Any]:
    """All fields in a schema, those of the records inside it too."""
    if isinstance(schema, list):
        return [field for part in schema for field in fields_of(part)]
    if not isinstance(schema, dict):
        return []
    inside = [schema.get("items"), schema["type"] if isinstance(schema["type"], dict | list) else None]
    fields = schema.get("fields", [])
    return [
        *fields,
        *[f for field in fields for f in fields_of(field["type"])],
        *[f for s in inside for f in fields_of(s)],
    ]


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_times_are_milliseconds_and_amounts_have_four_places(name: str) -> None:
    for field in fields_of(load(EVENTS[name])):
        if field["name"] in TIMES:
            assert field["type"] == {"type": "long", "logicalType": "timestamp-millis"}
        if field["name"] in AMOUNTS:
            assert field["type"] == {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}


def field_type(schema: Any, name: str) -> Any:
    return next(field["type"] for field in schema["fields"] if field["name"] == name)


def test_the_page_inside_a_user_is_a_page() -> None:
    assert field_type(load(STATE["UserState"]), "page") == ["null", load(STATE["UserPage"])]


def test_waiting_money_has_the_money_and_user_info_of_the_output() -> None:
    """Their bytes are copied as they are."""
    waiting, enriched = load(STATE["WaitingMoney"]), load(EVENTS["MoneyEnriched"])
    for name in ("money", "userInfo"):
        assert shape(field_type(waiting, name)) == shape(field_type(enriched, name))


def shape(schema: Any) -> Any:
    """A schema without its names of types and what is only said."""
    if isinstance(schema, list):
        return [shape(part) for part in schema]
    if isinstance(schema, dict):
        return {k: shape(v) for k, v in schema.items() if k not in ("doc", "namespace", "default")}
    return schema


def test_enums_of_state_have_the_order_of_those_on_the_wire() -> None:
    """They are stored by index."""
    reason = field_type(load(STATE["WaitingMoney"]), "reason")[1]["symbols"]
    assert reason == field_type(load(EVENTS["SessionLookupRequested"]), "reason")["symbols"]
    replies = field_type(load(STATE["UserPage"]), "replies")["items"]
    outcome = field_type(load(EVENTS["SessionLookupCompleted"]), "outcome")["symbols"]
    assert field_type(replies, "outcome")["symbols"] == outcome
