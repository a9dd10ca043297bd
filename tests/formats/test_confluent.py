"""The format confluent, against a registry over real HTTP."""

from __future__ import annotations

import copy
import json
import pickle
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.errors import ConfigError
from moneystate.records.schema_set import SchemaSet
from moneystate.registry.client import ANSWERS, RegistryClient
from moneystate.registry.confluent import ConfluentFormat, confluent_format
from tests.budget import examples
from tests.formats.registry_server import SUBJECT, RegistryServer, made
from tests.formats.values import (
    BY_NAME,
    NAMES,
    PAYMENT,
    SET,
    any_datum,
    body_of,
    canonical,
    framed,
    named,
    payment,
    reason,
)

SETTINGS = settings(max_examples=examples(40), database=None)
PAYMENT_SOURCE = BY_NAME["PaymentEvent"].source


@pytest.fixture(scope="module")
def lasting() -> Iterator[ConfluentFormat]:
    """For Hypothesis, which runs many examples within one test."""
    ANSWERS.clear()
    with RegistryServer() as server:
        yield made(server)
    ANSWERS.clear()


def evolved(*fields: dict[str, Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The payment's schema with fields replaced, added at the front, or taken away."""
    source = copy.deepcopy(PAYMENT_SOURCE)
    gone = {field["name"] for field in fields} | set(without)
    source["fields"] = [*fields, *(field for field in source["fields"] if field["name"] not in gone)]
    return source


def decimal_field(name: str, precision: int, scale: int) -> dict[str, Any]:
    return {"name": name, "type": {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}}


def time_field(type_of_time: Any) -> dict[str, Any]:
    return {"name": "processedAt", "type": type_of_time}


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(data=st.data())
def test_canonical_to_confluent_and_back_is_identical(name: str, lasting: ConfluentFormat, data: st.DataObject) -> None:
    type_schema = BY_NAME[name]
    value = canonical(type_schema, data.draw(any_datum(type_schema)))
    written = lasting.from_canonical(value)
    assert written[:1] == b"\x00"
    assert written[5:] == value[10:]
    assert lasting(written) == value


@SETTINGS
@given(body=st.binary(max_size=40), with_extra=st.booleans())
def test_arbitrary_bodies_are_accepted_or_refused_and_nothing_else(
    lasting: ConfluentFormat, body: bytes, with_extra: bool
) -> None:
    more = [{"name": "extra", "type": {"type": "map", "values": ["null", "Heartbeat"]}}] if with_extra else []
    writer = {"type": "record", "name": "Heartbeat", "namespace": "moneystate.events", "fields": [time_field("long")]}
    writer |= {"fields": [time_field("long"), *more]}
    value = framed(lasting._registry.register("any", json.dumps(writer)), body)
    assert reason(lasting, value) in ("", "malformed", "trailing_bytes")


def test_writing_registers_the_whole_schema_once_under_the_subject(registry: RegistryServer) -> None:
    confluent = made(registry)
    written = [confluent.from_canonical(payment(SET, id=str(n))) for n in range(3)]
    (schema_id,) = {struct.unpack(">bI", value[:5])[1] for value in written}
    entry = registry.state.schemas[schema_id]
    assert entry["subject"] == "wallet-events-value"
    assert json.loads(entry["schema"]) == PAYMENT_SOURCE
    assert registry.state.requests == ["POST /subjects/wallet-events-value/versions"]


def test_a_subject_with_odd_letters_is_one_part_of_the_path(registry: RegistryServer) -> None:
    ConfluentFormat(SET, RegistryClient(registry.url), "a/b ü-value").from_canonical(payment(SET))
    assert [entry["subject"] for entry in registry.state.schemas.values()] == ["a/b ü-value"]


def test_an_id_is_asked_for_once_in_a_process(registry: RegistryServer) -> None:
    schema_id = registry.add(PAYMENT_SOURCE)
    value = framed(schema_id, payment(SET)[10:])
    first = made(registry)
    for confluent in (first, first, made(registry), pickle.loads(pickle.dumps(format_for(registry)))):
        assert confluent(value) == payment(SET)
    assert registry.state.requests == [f"GET /schemas/ids/{schema_id}"]
    registry.stop()
    assert made(registry)(value) == payment(SET)


def format_for(server: RegistryServer) -> Any:
    return confluent_format(SET, server.url, subject=SUBJECT)


def test_a_used_format_survives_pickling_without_its_connections(registry: RegistryServer) -> None:
    confluent = format_for(registry)
    value = confluent.from_canonical(payment(SET))
    again = pickle.loads(pickle.dumps(confluent))
    assert again(value) == payment(SET)
    assert again.from_canonical(payment(SET)) == value


@pytest.mark.parametrize(
    ("writer", "written", "expected"),
    [
        (evolved({"name": "extra", "type": {"type": "array", "items": "string"}}), {"extra": ["a", "b"]}, {}),
        (evolved({"name": "extra", "type": {"type": "map", "values": ["null", "int"]}}), {"extra": {"k": 1}}, {}),
        (evolved(without=("isOldMoneyEvent", "userSessionId")), {}, {}),
        (evolved(time_field("long")), {}, {}),
        (evolved(time_field("int")), {"processedAt": 7}, {"processedAt": 7}),
        (evolved({"name": "userSessionId", "type": "string"}), {"userSessionId": "s"}, {"userSessionId": "s"}),
        (
            evolved({"name": "userSessionId", "type": ["string", "null"]}),
            {"userSessionId": "s"},
            {"userSessionId": "s"},
        ),
        (evolved({"name": "id", "type": ["null", "string"]}), {}, {}),
        (evolved({"name": "id", "type": "bytes"}), {"id": b"m-1"}, {}),
        (evolved({"name": "id", "type": {"type": "string", "avro.java.string": "String"}}), {}, {}),
        (evolved({"name": "amount", "type": ["null", decimal_field("", 20, 4)["type"]]}), {}, {}),
        (evolved(decimal_field("amount", 10, 4)), {}, {}),
        (evolved(decimal_field("amount", 30, 4)), {}, {}),
        (evolved({"name": "amount", "type": "bytes"}), {"amount": b"\x01\xe8\x48"}, {}),
        (PAYMENT_SOURCE | {"doc": "another text", "owner": "someone"}, {}, {}),
    ],
)
def test_other_writer_schemas_resolve_to_ours(
    registry: RegistryServer, writer: Any, written: dict[str, Any], expected: dict[str, Any]
) -> None:
    value = framed(registry.add(writer), body_of(writer, PAYMENT | written))
    assert made(registry)(value) == payment(SET, **expected)


def test_a_field_of_the_writer_is_one_of_ours(registry: RegistryServer) -> None:
    """A name counts before an alias, and an alias only once."""
    fields = [
        {"name": "b", "aliases": ["a"], "type": "string", "default": "none"},
        {"name": "a", "type": "string", "default": "none"},
        {"name": "c", "aliases": ["d"], "type": "string", "default": "none"},
        {"name": "e", "aliases": ["d"], "type": "string", "default": "none"},
    ]
    ours = {"type": "record", "name": "R", "namespace": "n", "fields": fields}
    theirs = ours | {"fields": [{"name": "d", "type": "string"}, {"name": "a", "type": "string"}]}
    schemas = SchemaSet([ours])
    value = framed(registry.add(theirs), body_of(theirs, {"a": "hi", "d": "ho"}))
    expected = {"b": "none", "a": "hi", "c": "ho", "e": "none"}
    assert made(registry, schemas=schemas)(value) == canonical(named(schemas, "R"), expected)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "bytes", "logicalType": "decimal", "precision": 10_000_000},
        {"type": "string", "logicalType": "decimal"},
        {"type": "string", "logicalType": "json"},
        {"type": "string", "logicalType": "uuid"},
        {"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 0},
    ],
)
def test_an_odd_logical_type_of_a_field_that_is_not_read_does_no_harm(registry: RegistryServer, odd: Any) -> None:
    writer = evolved({"name": "extra", "type": odd})
    plain = evolved({"name": "extra", "type": odd["type"]})
    extra = b"much" if odd["type"] == "bytes" else "text"
    value = framed(registry.add(writer), body_of(plain, PAYMENT | {"extra": extra}))
    assert made(registry)(value) == payment(SET)


def test_texts_have_no_units(registry: RegistryServer) -> None:
    writer = evolved({"name": "currency", "type": {"type": "string", "logicalType": "country"}})
    assert made(registry)(framed(registry.add(writer), body_of(writer, PAYMENT))) == payment(SET)


def test_types_that_refer_to_each_other_many_times_are_compared_once(registry: RegistryServer) -> None:
    tree: dict[str, Any] = {"type": "record", "name": "A", "namespace": "n"}
    tree["fields"] = [{"name": name, "type": ["null", "n.A"]} for name in "lr"]
    theirs: Any = {"type": "record", "name": "A", "namespace": "n", "fields": []}
    inner: Any = "null"
    for level in range(60, 0, -1):
        chain: dict[str, Any] = {"type": "record", "name": "A", "namespace": f"n{level}"}
        chain["fields"] = [{"name": "l", "type": ["null", inner]}, {"name": "r", "type": ["null", f"n{level + 1}.A"]}]
        if level == 60:
            chain["fields"] = []
        inner = chain
    theirs["fields"] = [{"name": "l", "type": ["null", inner]}, {"name": "r", "type": ["null", "n1.A"]}]
    tree["fields"] = [f | {"default": None} for f in tree["fields"]]
    schemas = SchemaSet([tree])
    value = framed(registry.add(theirs), b"\x00\x00")
    assert made(registry, schemas=schemas)(value) == canonical(named(schemas, "A"), {"l": None, "r": None})


def test_an_older_writer_gets_the_defaults_of_our_newer_schema(registry: RegistryServer) -> None:
    """Added fields with defaults, a field and the record itself renamed with aliases."""
    newer = evolved(
        {"name": "label", "type": "string", "default": "none"},
        decimal_field("fee", 20, 4) | {"default": "\x00\xfa"},
        {"name": "kind", "aliases": ["moneyType"], "type": "string"},
        without=("moneyType",),
    )
    newer |= {"name": "Paid", "aliases": ["PaymentEvent"]}
    schemas = SchemaSet([newer])
    value = framed(registry.add(PAYMENT_SOURCE), payment(SET)[10:])
    expected = PAYMENT | {"label": "none", "fee": Decimal("0.0250"), "kind": "CARD"}
    assert made(registry, schemas=schemas)(value) == canonical(named(schemas, "Paid"), expected)


@pytest.mark.parametrize(
    ("writer", "written"),
    [
        (evolved(decimal_field("amount", 20, 2)), {}),
        (evolved({"name": "amount", "type": ["null", decimal_field("", 20, 2)["type"]]}), {}),
        (evolved({"name": "amount", "type": "string"}), {"amount": "12.5"}),
        (evolved({"name": "amount", "type": "double"}), {"amount": 12.5}),
        (evolved(time_field({"type": "long", "logicalType": "timestamp-micros"})), {}),
        (evolved(time_field({"type": "long", "logicalType": "local-timestamp-millis"})), {}),
        (evolved(time_field({"type": "int", "logicalType": "date"})), {"processedAt": 7}),
        (evolved(time_field("string")), {"processedAt": "2020-12-16T00:00:00Z"}),
        (evolved(without=("amount",)), {}),
        (evolved({"name": "id", "type": ["null", "string"]}), {"id": None}),
        (PAYMENT_SOURCE | {"namespace": "elsewhere"}, {}),
        (["null", PAYMENT_SOURCE], {}),
    ],
)
def test_a_writer_schema_that_does_not_fit_is_unknown(
    registry: RegistryServer, writer: Any, written: dict[str, Any]
) -> None:
    value = framed(registry.add(writer), body_of(writer, PAYMENT | written))
    assert_unknown_after_one_request(registry, value)


@pytest.mark.parametrize(
    "writer",
    [
        {"type": "enum", "name": "PaymentEvent", "namespace": "moneystate.events", "symbols": ["A"]},
        {"type": "record", "name": "moneystate.events.Broken", "fields": [{"name": "f", "type": "Unknown"}]},
        {"type": "record"},
        "string",
        "7",
        {"type": "record", "name": "moneystate.events.PaymentEvent", "fields": [{"name": "x", "type": []}]},
        *[
            json.dumps(
                PAYMENT_SOURCE | {"fields": [{"name": "x", "type": {"type": "fixed", "name": "F", "size": 77}}]}
            ).replace("77", size)
            for size in ("1e999", "-1", '"5"', "2.5", "true")
        ],
        "{no json",
        "[" * 5000,
    ],
)
def test_a_writer_schema_that_is_no_record_schema_is_unknown(registry: RegistryServer, writer: Any) -> None:
    assert_unknown_after_one_request(registry, framed(registry.add(writer), b"\x00"))


def assert_unknown_after_one_request(registry: RegistryServer, value: bytes) -> None:
    confluent = made(registry)
    assert reason(confluent, value) == "unknown_schema"
    assert reason(confluent, value) == "unknown_schema"
    assert len(registry.state.requests) == 1


def tree(time: Any, scale: int) -> dict[str, Any]:
    """A record that contains itself, with an array of times and a map of decimals."""
    decimals = {"type": "map", "values": decimal_field("", 20, scale)["type"]}
    fields = [
        {"name": "more", "type": {"type": "array", "items": "Tree"}},
        {"name": "times", "type": {"type": "array", "items": time}},
        {"name": "amounts", "type": decimals},
    ]
    return {"type": "record", "name": "Tree", "namespace": "n", "fields": fields}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LEAF = {"more": [], "times": [7], "amounts": {"fee": Decimal(1)}}


@pytest.mark.parametrize(
    ("writer", "expected"),
    [
        (tree(MILLIS, 4), ""),
        (tree("int", 4), ""),
        (tree({"type": "long", "logicalType": "timestamp-micros"}, 4), "unknown_schema"),
        (tree(MILLIS, 2), "unknown_schema"),
    ],
)
def test_logical_types_are_compared_however_deep_they_are(registry: RegistryServer, writer: Any, expected: str) -> None:
    schemas = SchemaSet([tree(MILLIS, 4)])
    value = framed(registry.add(writer), body_of(writer, LEAF | {"more": [LEAF, LEAF]}))
    assert reason(made(registry, schemas=schemas), value) == expected


@pytest.mark.parametrize("more", [{"schemaType": "PROTOBUF"}, {"references": [{"name": "r", "subject": "s"}]}])
def test_what_is_not_one_avro_schema_is_unknown(registry: RegistryServer, more: dict[str, Any]) -> None:
    value = framed(registry.add(PAYMENT_SOURCE, **more), payment(SET)[10:])
    assert reason(made(registry), value) == "unknown_schema"


def test_an_enum_symbol_that_ours_lacks_is_unknown(registry: RegistryServer) -> None:
    writer = copy.deepcopy(BY_NAME["SessionLookupCompleted"].source)
    next(field for field in writer["fields"] if field["name"] == "outcome")["type"]["symbols"] += ["PENDING"]
    datum = {"moneyId": "m", "userId": "u", "userSessionId": "s", "requestedAt": 0, "attempts": 1, "completedAt": 0}
    confluent, schema_id = made(registry), registry.add(writer)
    canonical_value = canonical(BY_NAME["SessionLookupCompleted"], datum | {"outcome": "FAILED"})
    assert confluent(framed(schema_id, body_of(writer, datum | {"outcome": "FAILED"}))) == canonical_value
    value = framed(schema_id, body_of(writer, datum | {"outcome": "PENDING"}))
    assert reason(confluent, value) == "unknown_schema"


def test_a_writer_schema_may_contain_itself(registry: RegistryServer) -> None:
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
    writer = evolved({"name": "extra", "type": tree})
    value = framed(registry.add(writer), body_of(writer, PAYMENT | {"extra": {"left": {"left": None}}}))
    assert made(registry)(value) == payment(SET)


@pytest.mark.parametrize("writer", [PAYMENT_SOURCE, evolved({"name": "extra", "type": "string"})])
def test_bodies_are_checked_to_the_last_byte(registry: RegistryServer, writer: Any) -> None:
    confluent, schema_id = made(registry), registry.add(writer)
    body = body_of(writer, PAYMENT | {"extra": "x"})
    assert reason(confluent, framed(schema_id, body)) == ""
    assert reason(confluent, framed(schema_id, body + b"\x00")) == "trailing_bytes"
    for cut in range(len(body)):
        assert reason(confluent, framed(schema_id, body[:cut])) == "malformed"
    assert reason(confluent, framed(schema_id, body[:-1] + b"\x02")) == "malformed"
    assert reason(confluent, framed(schema_id, b"\x01" + body[1:])) == "malformed"


@pytest.mark.parametrize("precision", [20, 30])
def test_an_amount_of_more_than_20_digits_is_malformed(registry: RegistryServer, precision: int) -> None:
    writer = evolved(decimal_field("amount", precision, 4))
    too_long = (10**20).to_bytes(9, "big")
    raw = evolved({"name": "amount", "type": "bytes"})
    value = framed(registry.add(writer), body_of(raw, PAYMENT | {"amount": too_long}))
    assert reason(made(registry), value) == "malformed"


def test_bytes_that_are_read_as_a_text_must_be_one(registry: RegistryServer) -> None:
    """Avro lets a writer's bytes be read as a string, whatever bytes they are."""
    writer = evolved({"name": "currency", "type": "bytes"})
    confluent, schema_id = made(registry), registry.add(writer)
    assert confluent(framed(schema_id, body_of(writer, PAYMENT | {"currency": b"UYU"}))) == payment(SET, currency="UYU")
    value = framed(schema_id, body_of(writer, PAYMENT | {"currency": b"\xff"}))
    assert reason(confluent, value) == "malformed"


def test_headers(registry: RegistryServer) -> None:
    confluent = made(registry)
    assert reason(confluent, None) == "null_value"
    assert reason(confluent, b"") == "malformed"
    assert reason(confluent, b"\x00\x00\x00\x00") == "malformed"
    assert reason(confluent, b"\x01" + framed(1, b"")[1:]) == "malformed"
    assert reason(confluent, payment(SET)) == "malformed"
    assert registry.state.requests == []


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://localhost", "http://", "http://a:b:c", "/schemas"])
def test_what_is_no_url_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError):
        confluent_format(SET, url)


def test_missing_settings_are_configuration_errors(registry: RegistryServer) -> None:
    with pytest.raises(ConfigError):
        confluent_format(SET, None)
    with pytest.raises(ConfigError):
        confluent_format(SET, registry.url).from_canonical(payment(SET))


def test_writing_takes_canonical_values_only(registry: RegistryServer) -> None:
    assert reason(made(registry).from_canonical, payment(SET)[:-1]) == "malformed"
    assert registry.state.requests == []
