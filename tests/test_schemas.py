"""The constants of the core, which has no Avro library, held to `avro/`; and `avro/`, held to what may never change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from moneystate.engine import fingerprints as engine

AVRO = Path(__file__).resolve().parents[1] / "avro"
EVENTS = {path.stem: path for path in (AVRO / "money-enrichment" / "events").glob("*.avsc")}
STATE = {f"{path.parent.name}/{path.stem}": path for path in (AVRO / "state").glob("*/v*.avsc")}

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
# Our own, beyond the contract.
OURS = {"ForgetUserRequested": "7416f02f2437fad7"}
# Released state schemas: entries with them are in checkpoints, changelogs and backups.
RELEASED_STATE = {
    "BufferChunk/v1": "d3ee91e868c659d4",
    "KeyGroupClock/v1": "2d5cd377018963f0",
    "KeyGroupClock/v2": "76c27e2ab729b596",
    "StateManifest/v1": "4dae416be83ce8c9",
    "StateRun/v1": "999008056ee98920",
}
NEWEST = {name.partition("/")[0]: name for name in sorted(RELEASED_STATE)}
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
    assert {name: fingerprint_of(path) for name, path in EVENTS.items()} == {**CONTRACT, **OURS}


def test_released_state_schemas_never_change() -> None:
    assert {name: fingerprint_of(path) for name, path in STATE.items()} == RELEASED_STATE


def constant(name: str) -> str:
    """Names the constant of a state schema: an older version has its number."""
    record, _, version = name.partition("/")
    return screaming(record) + ("" if NEWEST[record] == name else f"_{version.upper()}")


@pytest.mark.parametrize("name", sorted(RELEASED_STATE))
def test_the_state_constants_are_the_files_fingerprints(name: str) -> None:
    assert getattr(engine, constant(name)).hex() == "c301" + RELEASED_STATE[name]


def test_no_constant_is_without_a_schema() -> None:
    constants = {name for name in vars(engine) if name.isupper()}
    assert constants == {constant(name) for name in RELEASED_STATE}


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
