"""What columns mean in Debezium's change events: by the schema that the event has, and refused without it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import pytest

import moneystate as ms
from moneystate.engine.avro import Malformed
from moneystate.records.change_values import converted
from moneystate.records.codec import Codec
from moneystate.records.iso_time import to_ms
from moneystate.records.json_text import parse
from moneystate.records.shapes import Shapes
from moneystate.testing import Bench

DAY = 86_400_000
T = to_ms("2026-03-01T10:00:00.123Z")
TIME, DATA, CONNECT = "io.debezium.time", "io.debezium.data", "org.apache.kafka.connect.data"


@dataclass(frozen=True)
class Point:
    x: float
    wkb: bytes


@dataclass(frozen=True)
class Row:
    id: int
    at: ms.Millis | None = None
    amount: Annotated[ms.Decimal, ms.Digits(30, 4)] | None = None
    text: str | None = None
    number: int | None = None
    real: float | None = None
    flag: bool | None = None
    raw: bytes | None = None
    document: ms.Json | None = None
    times: list[ms.Millis] = field(default_factory=list)
    prices: dict[str, ms.Decimal] = field(default_factory=dict)
    point: Point | None = None


@dataclass(frozen=True)
class Origin:
    ts_ms: ms.Millis | None = None
    ts_us: ms.Millis | None = None
    ts_ns: ms.Millis | None = None
    seen_at: ms.Millis | None = None


@dataclass(frozen=True)
class Change:
    before: Row | None
    after: Row | None
    ts_ms: ms.Millis
    source: Origin = Origin()


CODEC = Codec(Shapes("t").record(Change, "t"))


def read(payload: dict[str, Any], schema: Any = None) -> Change:
    document = parse(json.dumps({"before": None, "after": None, "ts_ms": T, **payload}))
    change: Change = CODEC.from_row(converted(CODEC.record, document, schema))
    return change


def column(name: str, value: Any, type: Any = "int64", semantic: str = "", **more: Any) -> Any:
    """The column of a row whose event has a schema."""
    its = {"type": type, "optional": True, "field": name, **({"name": semantic} if semantic else {}), **more}
    row = {"type": "struct", "fields": [{"type": "int64", "field": "id"}, its]}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    after = read({"after": {"id": 1, name: value}}, schema).after
    assert read({"before": {"id": 1, name: value}}, schema).before == after
    return getattr(after, name)


@pytest.mark.parametrize(
    ("type", "semantic", "value", "means"),
    [
        ("int64", f"{TIME}.Timestamp", T, T),
        ("int64", f"{TIME}.MicroTimestamp", T * 1_000 + 999, T),
        ("int64", f"{TIME}.NanoTimestamp", T * 1_000_000 + 1, T),
        ("int64", f"{TIME}.MicroTimestamp", -1, -1),
        ("int32", f"{TIME}.Date", 20_513, 20_513 * DAY),
        ("int32", f"{TIME}.Time", 36_000_123, 36_000_123),
        ("int64", f"{TIME}.MicroTime", 36_000_123_456, 36_000_123),
        ("int64", f"{TIME}.NanoTime", 36_000_123_456_789, 36_000_123),
        ("int32", f"{CONNECT}.Date", -1, -DAY),
        ("int32", f"{CONNECT}.Time", 5, 5),
        ("int64", f"{CONNECT}.Timestamp", T, T),
        ("string", f"{TIME}.ZonedTimestamp", "2026-03-01T12:00:00.123456+02:00", T),
        ("string", f"{TIME}.ZonedTime", "10:00:00.123Z", 36_000_123),
        ("string", f"{TIME}.IsoTimestamp", "2026-03-01T10:00:00.123Z", T),
        ("string", f"{TIME}.IsoDate", "2026-03-01Z", to_ms("2026-03-01T00:00:00Z")),
        ("string", f"{TIME}.IsoTime", "10:00:00Z", 36_000_000),
        ("int64", "", T, T),  # a number of the service's own, as the schema says
        ("string", "", "2026-03-01T10:00:00.123Z", T),
    ],
)
def test_a_time_has_the_unit_of_its_schema(type: str, semantic: str, value: Any, means: int) -> None:
    assert column("at", value, type, semantic) == means


@pytest.mark.parametrize(
    ("type", "semantic", "value"),
    [
        ("int64", f"{TIME}.MicroDuration", 1),
        ("string", f"{TIME}.Interval", "P1D"),
        ("int32", f"{TIME}.Year", 2026),
        ("int64", f"{TIME}.PicoTimestamp", 1),
        ("bytes", f"{CONNECT}.Decimal", "AQ=="),
        ("int64", f"{TIME}.Timestamp", 9_223_372_036_825_200_000),  # PostgreSQL's infinity
        ("int64", f"{TIME}.Timestamp", True),
        ("int64", f"{TIME}.ZonedTimestamp", 5),
        ("string", f"{TIME}.ZonedTimestamp", "soon"),
    ],
)
def test_what_is_no_point_in_time_is_refused_and_the_column_named(type: str, semantic: str, value: Any) -> None:
    with pytest.raises(Malformed, match=r"^after\.at: "):
        column("at", value, type, semantic)


def test_a_time_as_a_number_is_refused_without_its_schema() -> None:
    with pytest.raises(Malformed, match=r"^after\.at: a time as a number needs the schema"):
        read({"after": {"id": 1, "at": T}})
    with pytest.raises(Malformed, match=r"^after\.times: a time as a number needs the schema"):
        read({"after": {"id": 1, "times": [T]}})
    with pytest.raises(Malformed, match=r"^before\.at: "):
        read({"before": {"id": 1, "at": T}}, {"type": "struct", "fields": "none"})
    assert read({"after": {"id": 1, "at": "2026-03-01T10:00:00.123456Z"}}).after == Row(1, T)


def test_the_times_of_debezium_itself_have_the_units_of_their_names() -> None:
    origin = {"ts_ms": T, "ts_us": T * 1_000 + 1, "ts_ns": T * 1_000_000 + 1}
    assert read({"source": origin}) == Change(None, None, T, Origin(T, T, T))
    with pytest.raises(Malformed, match=r"^source\.seen_at: a time as a number of an unknown unit"):
        read({"source": {"seen_at": T}})


@pytest.mark.parametrize(
    ("type", "semantic", "value", "means"),
    [
        ("bytes", f"{CONNECT}.Decimal", "BNI=", "12.34"),
        ("bytes", f"{CONNECT}.Decimal", "/w==", "-0.01"),
        ("bytes", f"{CONNECT}.Decimal", 12.34, "12.34"),  # decimal.format=NUMERIC
        ("struct", f"{DATA}.VariableScaleDecimal", {"scale": 3, "value": "MDk="}, "12.345"),
        ("double", "", 12.5, "12.5"),
        ("string", "", "12.3400", "12.34"),
    ],
)
def test_a_decimal_is_exact_in_each_of_its_encodings(type: str, semantic: str, value: Any, means: str) -> None:
    assert column("amount", value, type, semantic, parameters={"scale": "2"}) == Decimal(means)
    if semantic:
        assert column("text", value, type, semantic, parameters={"scale": "2"}) == means
        assert column("real", value, type, semantic, parameters={"scale": "2"}) == float(means)


def test_a_decimal_without_places_fits_into_a_whole_number() -> None:
    assert column("number", "MDk=", "bytes", f"{CONNECT}.Decimal", parameters={"scale": "0"}) == 12_345
    with pytest.raises(Malformed, match=r"^after\.number: a decimal with places"):
        column("number", "MDk=", "bytes", f"{CONNECT}.Decimal", parameters={"scale": "1"})


def test_a_decimal_without_its_scale_is_refused() -> None:
    with pytest.raises(Malformed, match=r"^after\.amount: a decimal as a text needs the schema"):
        read({"after": {"id": 1, "amount": "BNI="}})
    for parameters in ({}, {"scale": "two"}, {"scale": "5000"}):
        with pytest.raises(Malformed, match=r"^after\.amount: a decimal"):
            column("amount", "BNI=", "bytes", f"{CONNECT}.Decimal", parameters=parameters)
    with pytest.raises(Malformed, match=r"^after\.amount: not base64"):
        column("amount", "?", "bytes", f"{CONNECT}.Decimal", parameters={"scale": "2"})
    assert read({"after": {"id": 1, "amount": {"scale": 1, "value": "BNI="}}}).after == Row(1, amount=Decimal("123.4"))


def test_encoded_columns_mean_what_they_encode() -> None:
    assert column("number", "AgE=", "bytes", f"{DATA}.Bits") == 258
    assert column("flag", "AQ==", "bytes", f"{DATA}.Bits") is True
    assert column("raw", "AQI=", "bytes", f"{DATA}.Bits") == b"\x01\x02"
    assert column("document", '{"a": [1.50]}', "string", f"{DATA}.Json") == ms.Json('{"a":[1.50]}')
    assert column("text", '{"a": 1}', "string", f"{DATA}.Json") == '{"a": 1}'
    assert column("document", "plain", "string") == ms.Json('"plain"')
    assert column("text", "5f0c", "string", f"{DATA}.Uuid") == "5f0c"
    point = {"x": 1.5, "y": 2, "wkb": "AQI=", "srid": None}
    assert column("point", point, "struct", f"{DATA}.geometry.Point") == Point(1.5, b"\x01\x02")


@pytest.mark.parametrize(
    ("name", "value", "semantic"),
    [("flag", "AgE=", "Bits"), ("document", "{", "Json"), ("document", 5, "Json"), ("number", "?", "Bits")],
)
def test_what_does_not_fit_the_field_is_refused_and_the_column_named(name: str, value: Any, semantic: str) -> None:
    with pytest.raises(Malformed, match=rf"^after\.{name}: "):
        column(name, value, "string", f"{DATA}.{semantic}")


def test_json_as_a_text_is_refused_without_a_schema_that_tells_it_from_a_text() -> None:
    with pytest.raises(Malformed, match=r"^after\.document: a text without a schema"):
        read({"after": {"id": 1, "document": "{}"}})


def test_items_and_values_mean_what_their_schema_says() -> None:
    micros = {"type": "int64", "name": f"{TIME}.MicroTimestamp"}
    assert column("times", [T * 1_000, 0], "array", items=micros) == [T, 0]
    cents = {"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": {"scale": "2"}}
    assert column("prices", {"a": "BNI="}, "map", values=cents) == {"a": Decimal("12.34")}


REAL = (  # as Debezium 3.6.1 wrote it without a schema; grade is numeric(4,1), at is timestamptz
    '{"before":null,"after":{"id":2,"student_id":3,"course_id":3,"grade":"Dw==","at":"2026-11-22T09:29:07.745'
    '937Z"},"source":{"version":"3.6.1.Final","connector":"postgresql","name":"uni","ts_ms":1795339747748,"sn'
    'apshot":"false","db":"uni","sequence":"[null,\\"31291440\\"]","ts_us":1795339747748545,"ts_ns":17953397477'
    '48545000,"schema":"public","table":"enrolment","txId":790,"lsn":31291440,"xmin":null,"origin":null,"orig'
    'in_lsn":null},"transaction":{"id":"790:31291440","total_order":3,"data_collection_order":1},"op":"c","ts'
    '_ms":1795339747811,"ts_us":1795339747811420,"ts_ns":1795339747811420310}'
)


@dataclass(frozen=True)
class Enrolment:
    id: int
    at: ms.Millis


@dataclass(frozen=True)
class Graded(Enrolment):
    grade: ms.Decimal | None


@dataclass(frozen=True)
class Clock:
    ts_us: ms.Millis


@dataclass(frozen=True)
class Enrolled:
    before: Enrolment | None
    after: Enrolment | None
    source: Clock


@dataclass(frozen=True)
class GradedChange:
    before: Graded | None
    after: Graded | None
    source: Clock


@dataclass(frozen=True)
class Seen:
    id: int
    at: ms.Millis
    logged_at: ms.Millis


@pytest.mark.parametrize("change", [Enrolled, GradedChange])
def test_an_event_that_debezium_wrote_is_read_or_refused(change: Any) -> None:
    service = ms.Service("grades")
    changes = service.input("uni.enrolment", change, key="after.id", time="source.ts_us", format="debezium")
    seen = service.output("seen", Seen, key="id")

    @service.on(changes)
    def see(ctx: ms.Context[None], e: Any) -> None:
        ctx.emit(seen, Seen(e.after.id, e.after.at, e.source.ts_us))

    bench = Bench(service)
    bench.send_raw("uni.enrolment", REAL, key='{"id":2}')
    if change is Enrolled:
        assert bench.out(seen) == [Seen(2, to_ms("2026-11-22T09:29:07.745Z"), 1_795_339_747_748)]
    else:
        assert bench.dead_letters() == ["malformed"]
