"""Records on the wire: the same bytes as fastavro, JSON there and back, and what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.errors import ServiceError, StepError
from moneystate.records import avro_types
from moneystate.records.codec import Codec, TrailingBytes
from moneystate.records.json_problems import problems
from moneystate.records.json_text import parse
from moneystate.records.json_value import json_as_is
from moneystate.records.schema import schema_of
from moneystate.records.shapes import Shapes
from moneystate.records.types import Digits, Int32, Json, Millis, Name, named, personal
from tests.api.values import for_fastavro, records
from tests.budget import examples

MANY = settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))


def codec(cls: type) -> Codec:
    return Codec(Shapes("shop").record(cls, "the test"))


def written_by_fastavro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas={}), for_fastavro(value))
    return out.getvalue()


@MANY
@given(st.data())
def test_bytes_are_those_of_fastavro_and_come_back_as_the_same_record(data: st.DataObject) -> None:
    cls, values = data.draw(records())
    value = data.draw(values)
    its = codec(cls)
    schema = schema_of(its.record)
    encoded = its.encode(value)
    assert encoded[HEADER_BYTES:] == written_by_fastavro(schema, value)
    assert its.decode(encoded) == value


@MANY
@given(st.data())
def test_a_schemas_canonical_form_and_fingerprint_are_those_of_fastavro(data: st.DataObject) -> None:
    cls, _ = data.draw(records())
    its = codec(cls)
    schema = schema_of(its.record)
    canonical = to_parsing_canonical_form(fastavro.parse_schema(schema, named_schemas={}))
    assert avro_types.canonical_form(avro_types.parse(schema)) == canonical
    assert its.header[2:].hex() == fingerprint(canonical, "CRC-64-AVRO")


@MANY
@given(st.data())
def test_json_comes_back_as_the_same_record(data: st.DataObject) -> None:
    cls, values = data.draw(records())
    value = data.draw(values)
    its = codec(cls)
    as_json = its.to_json(value)
    assert its.from_json_text(as_json.decode()) == value
    assert json.loads(as_json)["type"] == cls.__name__
    # what the sink does with canonical values
    assert its.transcode(its.encode(value), HEADER_BYTES) == as_json


@MANY
@given(st.data())
def test_what_is_cut_off_or_longer_does_not_decode(data: st.DataObject) -> None:
    cls, values = data.draw(records())
    its = codec(cls)
    encoded = its.encode(data.draw(values))
    with pytest.raises(TrailingBytes):
        its.decode(encoded + b"\x00")
    if len(encoded) > HEADER_BYTES:
        with pytest.raises(Malformed):
            its.decode(encoded[:-1])
        with pytest.raises(Malformed):
            its.transcode(encoded[:-1], HEADER_BYTES)


def text_of(make: Callable[[], bytes]) -> bytes | None:
    """None: JSON cannot represent it."""
    try:
        return make()
    except StepError:
        return None


@MANY
@given(st.data(), st.binary(max_size=60))
def test_any_bytes_are_a_record_or_malformed(data: st.DataObject, junk: bytes) -> None:
    cls, _ = data.draw(records())
    its = codec(cls)
    try:
        decoded = its.decode(its.header + junk)
    except Malformed:
        return
    assert its.decode(its.encode(decoded)) == decoded or decoded != decoded  # NaN
    assert text_of(lambda: its.transcode(its.encode(decoded), HEADER_BYTES)) == text_of(lambda: its.to_json(decoded))


@dataclass
class Part:
    a: int = 0
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Whole:
    order_id: str
    placed_at: Millis
    status: Literal["NEW", "OPEN"] = "NEW"
    note: str | None = None
    email: Annotated[str | None, personal] = None
    parts: list[Part] = field(default_factory=list)
    amount: Decimal = Decimal(0)


def test_the_schema_has_camel_case_defaults_and_marks() -> None:
    schema = schema_of(codec(Whole).record)
    fields = {f["name"]: f for f in schema["fields"]}
    assert (schema["namespace"], schema["name"]) == ("shop", "Whole")
    assert list(fields) == ["orderId", "placedAt", "status", "note", "email", "parts", "amount"]
    assert fields["placedAt"]["type"] == {"type": "long", "logicalType": "timestamp-millis"}
    assert fields["status"]["type"]["name"] == "WholeStatus"
    assert fields["status"]["default"] == "NEW"
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["email"]["personal"] is True
    assert fields["parts"]["default"] == []


def test_a_full_name_and_the_name_of_an_enum_can_be_given() -> None:
    @named("other.place.Renamed")
    @dataclass
    class Mine:
        kind: Annotated[Literal["A"], Name("Kind")]

    shapes = Shapes("shop")
    shapes.shape(int, "the test", "")
    schema = schema_of(shapes.record(_with_module_types(Mine), "the test"))
    assert (schema["namespace"], schema["name"]) == ("other.place", "Renamed")
    assert schema["fields"][0]["type"]["name"] == "Kind"
    assert schema["fields"][0]["type"]["namespace"] == "other.place"


def _with_module_types(cls: type) -> type:
    cls.__annotations__ = {"kind": Annotated[Literal["A"], Name("Kind")]}
    return cls


def test_json_is_strict_on_types_and_says_which_field() -> None:
    its = codec(Whole)
    good = '{"orderId":"a","placedAt":"2020-12-16T00:00:00Z"}'
    assert its.from_json_text(good) == Whole("a", 1_608_076_800_000)
    assert its.from_json_text('{"orderId":"a","placedAt":5,"unknown":[1]}') == Whole("a", 5)
    for bad, where in {
        '{"placedAt":5}': "orderId: missing",
        '{"orderId":5,"placedAt":5}': "orderId: not a text",
        '{"orderId":"a","placedAt":5.0}': "placedAt: ",
        '{"orderId":"a","placedAt":true}': "placedAt: ",
        '{"orderId":"a","placedAt":99999999999999999999}': "placedAt: ",
        '{"orderId":"a","placedAt":"yesterday"}': "placedAt: ",
        '{"orderId":"a","placedAt":5,"status":"GONE"}': "status: not one of NEW, OPEN",
        '{"orderId":"a","placedAt":5,"note":1}': "note: not a text",
        '{"orderId":"a","placedAt":5,"parts":[{"a":"x"}]}': "parts.a: not a whole number",
        '{"orderId":"a","placedAt":5,"amount":1.00001}': "amount: more than 4 places",
        '{"orderId":"a","placedAt":5,"amount":1e999999999}': "amount: more than 20 digits",
        "[]": "not an object",
        '{"orderId":"a","orderId":"a","placedAt":5}': "twice",
        '{"orderId":"\\ud800","placedAt":5}': "surrogate",
    }.items():
        with pytest.raises(Malformed) as refused:
            its.from_json_text(bad)
        assert where in str(refused.value), bad


@dataclass(frozen=True)
class Deep:
    body: Json


@dataclass(frozen=True)
class Deeper:
    parts: list[Deep]


@pytest.mark.parametrize("levels", [100, 101])
def test_json_has_the_same_limit_of_levels_in_json_and_in_avro(levels: int) -> None:
    body = "[" * levels + "]" * levels
    flat, nested = codec(Deep), codec(Deeper)
    in_avro = flat.encode(Deep(json_as_is(body)))
    reads: list[Callable[[], Any]] = [
        lambda: flat.from_json_text(f'{{"body":{body}}}'),
        lambda: nested.from_json_text(f'{{"parts":[{{"body":{body}}}]}}'),
        lambda: flat.decode(in_avro),
    ]
    for read in reads:
        if levels == 100:
            read()
        else:
            with pytest.raises(Malformed, match="more than 100 levels"):
                read()


def test_times_go_out_as_iso_and_decimals_with_their_places() -> None:
    text = codec(Whole).to_json(Whole("a", 0, amount=Decimal("-1.5"))).decode()
    assert '"placedAt":"1970-01-01T00:00:00.000Z"' in text
    assert '"amount":-1.5000' in text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"order_id": b"a"}, "Whole.order_id: expected str, found b'a'."),
        ({"order_id": "\ud800"}, "Whole.order_id: expected a string that UTF-8 can encode"),
        ({"placed_at": "now"}, "Whole.placed_at: expected int, found 'now'."),
        ({"placed_at": 1 << 63}, "Whole.placed_at: expected a number of at most 64 bits"),
        ({"status": "GONE"}, "Whole.status: expected one of NEW, OPEN, found 'GONE'."),
        ({"parts": [Part(), Part(1, ["x", 5])]}, "Whole.parts[1].texts[1]: expected str, found 5."),  # type: ignore[list-item]
        ({"parts": [Whole]}, "Whole.parts[0]: expected Part, found"),
        ({"amount": Decimal("0.00001")}, "at most 20 digits, 4 of them after the point"),
        ({"amount": Decimal("NaN")}, "Whole.amount: expected"),
        ({"amount": 1.5}, "Whole.amount: expected Decimal, found 1.5."),
    ],
)
def test_a_value_that_its_field_cannot_hold_is_named(change: dict[str, Any], line: str) -> None:
    good: dict[str, Any] = {"order_id": "a", "placed_at": 5}
    its = codec(Whole)
    for write in (its.encode, its.to_json):
        with pytest.raises(StepError) as refused:
            write(Whole(**(good | change)))
        assert line in str(refused.value)


@dataclass(frozen=True, slots=True)
class InSlots:
    texts: list[str]


@dataclass(frozen=True)
class AfterSlots(InSlots):
    more: list[str]


@dataclass(frozen=True, kw_only=True)
class ByName:
    parts: list[Part]


@dataclass(frozen=True)
class Checked(ByName):
    count: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", len(self.parts))


@dataclass(frozen=True)
class Stripped:
    """Its constructor is its own."""

    text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text.strip())


@pytest.mark.parametrize(
    "value",
    [
        InSlots(["x"]),
        AfterSlots(["x"], ["y"]),
        ByName(parts=[Part()]),
        Checked(parts=[Part()]),
        Stripped("a"),
    ],
    ids=repr,
)
def test_frozen_records_of_all_forms_are_read(value: Any) -> None:
    its = codec(type(value))
    assert its.decode(its.encode(value)) == value
    assert its.from_json_text(its.to_json(value).decode()) == value


def test_a_constructor_of_its_own_is_called() -> None:
    its = codec(Stripped)
    assert its.from_json_text('{"text":" a "}') == its.decode(its.header + b"\x06 a ") == Stripped("a")


def test_arrays_in_any_blocks_are_read() -> None:
    its = codec(Part)
    body = b"\x02" + b"\x01\x04\x02x" + b"\x02\x02y" + b"\x00"  # a = 1; a block with its size, one without
    assert its.decode(its.header + body) == Part(1, ["x", "y"])


@dataclass
class SetField:
    tags: set[str]


@dataclass
class UnionField:
    either: int | str


@dataclass
class KeyField:
    by_number: dict[int, str]


@dataclass
class Itself:
    inner: list[Itself]


@dataclass
class Clash:
    a_b: int
    aB: int


class NoRecord:
    pass


@pytest.mark.parametrize(
    ("cls", "line"),
    [
        (SetField, "SetField.tags: expected a type that a record can have, found set[str]. Do: use str,"),
        (UnionField, "UnionField.either: expected a type that a record can have, found int | str"),
        (KeyField, "KeyField.by_number: expected a type that a record can have, found dict[int, str]"),
        (Itself, "contains itself"),
        (Clash, "Clash: a_b and aB are both aB in Avro."),
        (NoRecord, "the test: expected a dataclass, found NoRecord. Do: put @dataclass before the class."),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(cls: type, line: str) -> None:
    with pytest.raises(ServiceError) as refused:
        codec(cls)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_decimals_of_other_digits() -> None:
    @dataclass
    class Rate:
        rate: Decimal

    Rate.__annotations__ = {"rate": Annotated[Decimal, Digits(38, 12)]}
    its = codec(Rate)
    value = Rate(Decimal("12345678901234567890123456.123456789012"))
    assert its.decode(its.encode(value)) == value


@pytest.mark.parametrize(
    ("taken", "number", "given"),
    [
        (b"\x01\x2c", "0.0300", b"\x01\x2c"),
        (b"\xff\xff\xff", "-0.0001", b"\xff"),  # Avro's bytes stay as they came
        (b"", "0.0000", b"\x00"),
        (b"\x7f" * 8, "918720195043573.7471", b"\x7f" * 8),
    ],
)
def test_a_decimal_as_its_bytes_passes_through_avro_and_is_a_number_in_json(
    taken: bytes, number: str, given: bytes
) -> None:
    @dataclass
    class Raw:
        amount: bytes

    Raw.__annotations__ = {"amount": Annotated[bytes, Digits(20, 4)]}
    its = codec(Raw)
    body = its.encode(Raw(taken))
    text = f'{{"type":"Raw","amount":{number}}}'
    assert its.decode(body) == Raw(taken)
    assert (its.to_json(Raw(taken)).decode(), its.transcode(body, 10).decode()) == (text, text)
    assert its.from_json_text(text) == Raw(given)
    assert schema_of(its.record)["fields"][0]["type"] == {
        "type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4,
    }  # fmt: skip


def test_a_decimal_as_its_bytes_may_have_more_digits_in_avro_but_not_in_json() -> None:
    @dataclass
    class Raw:
        amount: bytes

    Raw.__annotations__ = {"amount": Annotated[bytes, Digits(20, 4)]}
    its = codec(Raw)
    value = Raw(b"\x01" + bytes(4000))
    text = its.to_json(its.decode(its.encode(value))).decode()
    assert len(text) > 9_000
    for more in (text, '{"amount":1e-5}', '{"amount":"1"}'):
        with pytest.raises(Malformed):
            its.from_json_text(more)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"count":2147483647,"amount":1.5}', []),
        ('{"count":2147483648,"amount":1.5}', ["count"]),
        ('{"count":-2147483649,"amount":"AP8="}', ["count", "amount"]),
        ('{"count":1,"amount":0.00001}', ["amount"]),
    ],
)
def test_a_document_without_problems_is_one_that_the_codec_accepts(text: str, wrong: list[str]) -> None:
    @dataclass
    class Counted:
        count: int
        amount: bytes

    Counted.__annotations__ = {"count": Int32, "amount": Annotated[bytes, Digits(20, 4)]}
    its = codec(Counted)
    assert [problem.field for problem in problems(its.record, parse(text))] == wrong
    if wrong:
        with pytest.raises(Malformed):
            its.from_json_text(text)
    else:
        assert its.from_json_text(text) == Counted(2147483647, b"\x3a\x98")


def test_json_inside_a_record_is_a_string_in_avro_and_embedded_in_json() -> None:
    @dataclass
    class Holder:
        details: Json

    Holder.__annotations__ = {"details": Json}
    its = codec(Holder)
    value = Holder(Json('{"b": [1.50, -0, 1E5], "a": "\\u00e9"}'))
    assert value.details.text == '{"a":"é","b":[1.50,-0,1E5]}'
    assert its.to_json(value).decode() == '{"type":"Holder","details":{"a":"é","b":[1.50,-0,1E5]}}'
    assert its.decode(its.encode(value)) == value
    spaced = b'{ "b":[1.50, -0,1E5],"a":"\xc3\xa9"}'
    assert its.decode(its.header + bytes([len(spaced) * 2]) + spaced) == value
    with pytest.raises(Malformed):
        its.decode(its.header + b"\x06NaN")
