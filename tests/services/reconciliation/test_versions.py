"""Avro values whose writer has another version of the schema: of configured fields, and of inventory items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from moneystate.engine.deadletter import Letter
from moneystate.engine.processor import Read, Rejected
from moneystate.registry.client import ANSWERS, RegistryClient, RegistryUnavailable
from moneystate.registry.confluent import ConfluentFormat
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.folders import avro_root
from moneystate.runtime.plan import Plan
from services.reconciliation import avro_values
from services.reconciliation.config import Config, Fields, InputConfig, Pair, Side
from services.reconciliation.records import InventoryItem
from services.reconciliation.service import reconciliation
from tests.formats.registry_server import RegistryServer, referring
from tests.formats.values import SET, body_of, framed

T = 1_772_359_200_000
PAIR = Pair("p", Side("shop", "PRODUCER_EXPECTED"), Side("bank", "ACTUAL"), n_ms=1_000, m_ms=5_000, o_ms=60_000)
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
ID, REGION, AT = ({"name": n, "type": t} for n, t in (("id", "string"), ("region", "string"), ("at", MILLIS)))
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
PAYMENT = {"id": "p1", "region": "eu", "at": T}
FIELDS = Fields("id", "region", "at")
ITEM = InventoryItem("bank", "eu", "p1", "ACTUAL", T)


def schema(*fields: Any, name: str = "Payment") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields]}


OLD = schema(ID, REGION, AT)


def single_object(writer: Any, record: Any) -> bytes:
    canonical = to_parsing_canonical_form(parse_schema(writer))
    return b"\xc3\x01" + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO")) + body_of(writer, record)


def reads(convert: Any = None, **given: Any) -> Any:
    """A function from a value of the topic to its item."""
    input = InputConfig("payments", store="bank", role="ACTUAL", **given)
    plan = Plan(reconciliation(Config(inputs=(InputConfig(), input), pairs=(PAIR,))))
    code = plan.codes["payments"]
    converts = {} if convert is None else {code: convert}
    read: Read = ServiceDecoder(plan).reads({"payments": input.format}, converts)[code]

    def item(value: bytes | None) -> InventoryItem:
        decoded = read(Letter("payments", 0, 0, -1, None, value, []))
        assert decoded is not None
        made: InventoryItem = plan.codec(InventoryItem, "").decode(decoded[0])
        return made

    return item


def reason(read: Any, value: bytes | None) -> str:
    with pytest.raises(Rejected) as refused:
        read(value)
    return refused.value.reason


def test_every_configured_version_is_read() -> None:
    new = schema(NOTE, AT, REGION, {"name": "id", "type": "long"})
    read = reads(format="avro", fields=FIELDS, schema=json.dumps(OLD), schemas=(json.dumps(new),))
    assert read(single_object(OLD, PAYMENT)) == ITEM
    assert read(single_object(new, {**PAYMENT, "id": 7, "note": "n"})) == replace(ITEM, event_id="7")


@pytest.mark.parametrize("note", [None, "a note"])
def test_a_version_with_appended_fields_is_read_without_its_schema(note: str | None) -> None:
    read = reads(format="avro", fields=FIELDS, schema=json.dumps(OLD))
    assert read(single_object(schema(ID, REGION, AT, NOTE), {**PAYMENT, "note": note})) == ITEM
    assert read(single_object(schema(ID, REGION, AT, name="Paid"), PAYMENT)) == ITEM


@pytest.mark.parametrize(
    "fields", [(NOTE, ID, REGION, AT), (ID, NOTE, REGION, AT), (ID, REGION, NOTE, AT), (AT, ID, REGION)]
)
@pytest.mark.parametrize("note", [None, "a note"])
def test_an_unknown_version_with_fields_before_the_known_ones_is_refused(fields: Any, note: str | None) -> None:
    read = reads(format="avro", fields=FIELDS, schema=json.dumps(OLD))
    assert reason(read, single_object(schema(*fields), {**PAYMENT, "note": note})) == "unknown_schema"


def test_what_is_no_value_of_a_version_is_refused() -> None:
    read = reads(format="avro", fields=FIELDS, schema=json.dumps(OLD))
    value = single_object(OLD, PAYMENT)
    assert [reason(read, wrong) for wrong in (None, value[:-1], value + b"x")] == [
        "null_value", "malformed", "trailing_bytes",
    ]  # fmt: skip
    for wrong in (b"", b"{}", value[:5], b"\xc3\x01" + b"x" * 40):
        assert reason(read, wrong) == "unknown_schema"


@pytest.fixture
def later_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A version of inventory items that was released later, with a new field before the others."""
    source: dict[str, Any] = json.loads((avro_root() / "reconciliation/events/InventoryItem.avsc").read_text())
    later = {**source, "fields": [NOTE | {"name": "colour"}, *source["fields"]]}
    folder = tmp_path / "reconciliation" / "events" / "InventoryItem"
    folder.mkdir(parents=True)
    folder.with_suffix(".avsc").write_text(json.dumps(source))
    (folder / "v2.avsc").write_text(json.dumps(later))
    monkeypatch.setattr(avro_values, "avro_root", lambda: tmp_path)
    return later


def an_item(**more: Any) -> dict[str, Any]:
    plain = {
        "store": "bank", "source": "eu", "eventId": "p1", "role": "ACTUAL", "eventTime": T, "writtenAt": None,
        "parts": 1, "derivedFrom": None, "derivedFromSource": None, "filtered": False, "note": None,
    }  # fmt: skip
    return {**plain, **more}


def test_every_released_version_of_items_is_read(later_item: dict[str, Any]) -> None:
    read = reads(format="avro")
    assert read(single_object(later_item, an_item(colour="red", writtenAt=T))) == replace(ITEM, written_at=T)
    appended = {**later_item, "fields": [*later_item["fields"], {"name": "size", "type": "int"}]}
    assert read(single_object(appended, an_item(colour=None, size=3, parts=2))) == replace(ITEM, parts=2)
    assert reason(read, single_object(later_item, an_item(colour=None, parts=0))) == "malformed"


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    ANSWERS.clear()
    with RegistryServer() as server:
        yield server
    ANSWERS.clear()


def confluent(registry: RegistryServer, **given: Any) -> Any:
    client = RegistryClient(registry.url, attempts=1, sleep=lambda _: None)
    return reads(ConfluentFormat(SET, client), format="confluent", **given)


def test_fields_of_a_confluent_topic_are_read_by_the_schema_that_is_registered(registry: RegistryServer) -> None:
    read = confluent(registry, fields=Fields("who.id", "region", "at"))
    who = {"type": "record", "name": "Who", "fields": [{"name": "id", "type": "long"}]}
    for writer in (
        schema({"name": "who", "type": who}, REGION, AT),
        schema(NOTE, AT, REGION, {"name": "who", "type": who}),
    ):
        value = framed(registry.add(writer), body_of(writer, {**PAYMENT, "who": {"id": 7}, "note": "n"}))
        assert read(value) == replace(ITEM, event_id="7")
        assert reason(read, value + b"x") == "trailing_bytes"
    registry.add_version("who/versions/1", who)
    referring_id = registry.add(
        schema({"name": "who", "type": "Who"}, REGION, AT), references=referring("who/versions/1")
    )
    writer = schema({"name": "who", "type": who}, REGION, AT)
    assert read(framed(referring_id, body_of(writer, {**PAYMENT, "who": {"id": 8}}))) == replace(ITEM, event_id="8")


def test_items_of_a_confluent_topic_are_read_in_any_version(
    registry: RegistryServer, later_item: dict[str, Any]
) -> None:
    read = confluent(registry)
    other = registry.add(later_item)
    assert read(framed(other, body_of(later_item, an_item(colour="red", role="CONSUMER_EXPECTED")))) == replace(
        ITEM, role="CONSUMER_EXPECTED"
    )
    assert reason(read, framed(registry.add(OLD), body_of(OLD, PAYMENT))) == "unknown_schema"
    assert reason(read, framed(registry.add("{}", schemaType="JSON"), b"")) == "unknown_schema"
    assert reason(read, b"{}") == "malformed"
    assert reason(read, None) == "null_value"


def test_a_registry_that_is_away_makes_no_dead_letter(registry: RegistryServer) -> None:
    read = confluent(registry, fields=FIELDS)
    value = framed(registry.add(OLD), body_of(OLD, PAYMENT))
    registry.state.fail_next = [(503, b"")]
    with pytest.raises(RegistryUnavailable):
        read(value)
    assert read(value) == ITEM


def test_a_confluent_topic_needs_a_registry() -> None:
    assert reason(reads(format="confluent", fields=FIELDS), framed(1, body_of(OLD, PAYMENT))) == "unknown_schema"
