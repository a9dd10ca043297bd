"""The constants of the core, which has no Avro library, held to `avro/`; and `avro/`, held to what may never change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from moneystate.engine import fingerprints as engine
from services.enrichment import fingerprints as enrichment

AVRO = Path(__file__).resolve().parents[1] / "avro"
FOLDERS = ("events", "lookups", "enriched", "headers")
EVENTS = {path.stem: path for folder in FOLDERS for path in (AVRO / folder).glob("*.avsc")}
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
OURS = {"ForgetUserRequested": "7416f02f2437fad7", "Lineage": "24cf23ad77dc7212"}
# Released state schemas: entries with them are in checkpoints, changelogs and backups.
RELEASED_STATE = {
    "BufferChunk/v1": "d3ee91e868c659d4",
    "ForgottenUser/v1": "1514a0a81e738b3f",
    "KeyGroupClock/v1": "2d5cd377018963f0",
    "KeyGroupClock/v2": "76c27e2ab729b596",
    "StateManifest/v1": "4dae416be83ce8c9",
    "StateRun/v1": "999008056ee98920",
    "UserPage/v1": "ec1beb7d80d80859",
    "UserPage/v2": "59dfcc365c33f150",
    "UserState/v1": "524e57f38ee4df5c",
    "UserState/v2": "eaecf25517fb7e0d",
    "WaitingMoney/v1": "f10f5dac6fa4fd09",
    "WaitingMoney/v2": "ab3e2da2434e7e2f",
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


@pytest.mark.parametrize("name", sorted({**CONTRACT, **OURS}))
def test_the_enrichments_constants_are_the_files_fingerprints(name: str) -> None:
    assert getattr(enrichment, screaming(name)).hex() == "c301" + {**CONTRACT, **OURS}[name]


@pytest.mark.parametrize("name", sorted(RELEASED_STATE))
def test_the_state_constants_are_the_files_fingerprints(name: str) -> None:
    module: Any = enrichment if hasattr(enrichment, constant(name)) else engine
    assert getattr(module, constant(name)).hex() == "c301" + RELEASED_STATE[name]


def test_no_constant_is_without_a_schema() -> None:
    constants = {name for module in (engine, enrichment) for name in vars(module) if name.isupper()}
    assert constants == {screaming(n) for n in {**CONTRACT, **OURS}} | {constant(name) for name in RELEASED_STATE}


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


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_page_inside_a_user_is_a_page(version: str) -> None:
    page = field_type(load(STATE[f"UserState/{version}"]), "page")
    assert named(page) == named(["null", load(STATE[f"UserPage/{version}"])])


def named(schema: Any) -> Any:
    """A schema with each named type by its name: where it is defined is the first place that has it."""
    if isinstance(schema, list):
        return [named(part) for part in schema]
    if isinstance(schema, dict):
        inside = schema["name"] if schema.get("name") == "Source" else {k: named(v) for k, v in schema.items()}
        return "moneystate.state.Source" if inside == "Source" else inside
    return schema


@pytest.mark.parametrize("record", ["UserState/v2", "UserPage/v2", "WaitingMoney/v2", "ForgottenUser/v1"])
def test_a_source_is_the_same_everywhere(record: str) -> None:
    """Its bytes are copied as they are."""
    sources = [shape(s) for s in definitions(load(STATE[record]), "Source")]
    assert sources == [shape(s) for s in definitions(load(EVENTS["Lineage"]), "Source")]
    assert len(sources) == 1


def definitions(schema: Any, name: str) -> list[Any]:
    if isinstance(schema, list):
        return [definition for part in schema for definition in definitions(part, name)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if schema.get("name") == name and schema.get("type") == "record" else []
    return here + [definition for part in schema.values() for definition in definitions(part, name)]


def test_waiting_money_has_the_money_and_user_info_of_the_output() -> None:
    """Their bytes are copied as they are."""
    waiting, enriched = load(STATE[NEWEST["WaitingMoney"]]), load(EVENTS["MoneyEnriched"])
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
    reason = field_type(load(STATE[NEWEST["WaitingMoney"]]), "reason")[1]["symbols"]
    assert reason == field_type(load(EVENTS["SessionLookupRequested"]), "reason")["symbols"]
    replies = field_type(load(STATE[NEWEST["UserPage"]]), "replies")["items"]
    outcome = field_type(load(EVENTS["SessionLookupCompleted"]), "outcome")["symbols"]
    assert field_type(replies, "outcome")["symbols"] == outcome
