"""Documents become records of a topic, or all of their problems."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moneystate as ms
from moneystate.engine.avro import Malformed
from moneystate.errors import ServiceError
from moneystate.ingest.app import Limits
from moneystate.ingest.json_schemas import Schemas
from moneystate.ingest.options import IngestOptions, TopicOptions
from moneystate.ingest.process import declared_topics
from moneystate.ingest.refusals import Refused
from moneystate.ingest.rights import Bounds
from moneystate.ingest.topics import Outgoing, Settings, Topic, by_name, topics_of
from moneystate.records.json_problems import problems
from moneystate.records.json_text import parse
from moneystate.runtime.plan import Plan
from moneystate.runtime.plans import plan_of
from tests.budget import examples
from tests.formats.registry_server import RegistryServer


@dataclass(frozen=True)
class Line:
    name: str
    price: ms.Decimal


@dataclass(frozen=True)
class Sensor:
    place: str
    serial: int | None = None


@dataclass(frozen=True)
class Reading:
    device_id: str
    measured_at: ms.Millis
    kind: Literal["A", "B"] = "A"
    sensor: Sensor | None = None
    lines: list[Line] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    raw: ms.Json = field(default_factory=lambda: ms.Json("null"))


@dataclass(frozen=True)
class Started:
    device_id: str
    measured_at: ms.Millis

    def __post_init__(self) -> None:
        if self.device_id == "bad":
            raise ValueError("a device that is not known")


@dataclass(frozen=True)
class Cloud:
    source: Annotated[str, ms.Header("ce_source")]
    number: int


def service(format: str = "json") -> Plan:
    made: ms.Service[None] = ms.Service("readings")
    reading = made.input("readings", Reading, key="device_id", time="measured_at", format=format)
    started = made.input("readings", Started, key="device_id", time="measured_at", format=format)
    cloud = made.input("cloud", Cloud, key="number", time=ms.Header("ce_time"), format="json")
    made.input("changes", Line, key="name", time=ms.arrival, format="debezium")

    @made.on(reading)
    def read(ctx: ms.Context[None], event: Reading) -> None: ...

    @made.on(started)
    def start(ctx: ms.Context[None], event: Started) -> None: ...

    @made.on(cloud)
    def take(ctx: ms.Context[None], event: Cloud) -> None: ...

    return Plan(made)


PLAN = service()
CODEC = PLAN.codecs[Reading]


def topic(name: str = "readings", format: str = "json", most: int = 10_000) -> Topic:
    return Topic(service(format), name, Settings("p-", format, most))


def outgoing(document: Any, writes: Topic | None = None, bounds: Bounds | None = None, **headers: bytes) -> Outgoing:
    given: Any = headers
    return (writes or topic()).outgoing(parse(json.dumps(document)), None, given, bounds or {})


def reading(**members: Any) -> dict[str, Any]:
    return {"type": "Reading", "deviceId": "7", "measuredAt": "2026-01-31T10:00:00Z", **members}


def refused(document: Any, writes: Topic | None = None, bounds: Bounds | None = None) -> Refused:
    with pytest.raises(Refused) as error:
        outgoing(document, writes, bounds)
    return error.value


def told(document: Any) -> list[tuple[str, str]]:
    error = refused(document)
    assert (error.code, error.status) == ("INVALID_RECORD", 400)
    return [(problem.field, problem.text) for problem in error.problems]


def test_a_record_in_json_has_its_type_and_all_fields_and_nothing_else() -> None:
    taken = outgoing(reading(unknown=1, lines=[{"name": "x", "price": 1.5}]))
    assert taken.topic == "p-readings"
    assert taken.key == b"7"
    assert json.loads(taken.value) == reading(
        measuredAt="2026-01-31T10:00:00.000Z", kind="A", sensor=None, metrics={}, raw=None,
        lines=[{"name": "x", "price": 1.5}],
    )  # fmt: skip


def test_a_record_in_avro_is_its_single_object_encoding() -> None:
    plan = service("avro")
    taken = outgoing(reading(), topic(format="avro"))
    assert plan.codecs[Reading].decode(taken.value) == Reading("7", 1_769_853_600_000)


def test_all_problems_of_a_record_are_told_at_once() -> None:
    document = {
        "type": "Reading", "measuredAt": "yesterday", "kind": "C", "sensor": {"serial": "x"},
        "lines": [{"name": "a", "price": 1}, {"name": 5, "price": 1.00001}], "metrics": {"t": "warm"},
    }  # fmt: skip
    assert told(document) == [
        ("deviceId", "missing"),
        ("measuredAt", "not a time with an offset, such as 2026-01-31T00:00:00Z (RFC 3339)"),
        ("kind", "not one of A, B, but C"),
        ("sensor.place", "missing"),
        ("sensor.serial", "not a whole number of at most 64 bits"),
        ("lines[1].name", "not a text"),
        ("lines[1].price", "more than 4 places"),
        ("metrics.t", "not a number"),
    ]


def test_types_that_cannot_be_told_or_are_not_of_the_topic() -> None:
    one_of = "not one of Reading, Started"
    assert told({"deviceId": "7"}) == [("type", "missing")]
    assert told({"type": 5}) == [("type", "not a text")]
    assert told({"type": "Unheard"}) == [("type", one_of)]
    assert told({"type": "Cloud", "number": 1}) == [("type", one_of)]
    assert told({"type": "Heartbeat", "processedAt": "2026-01-31T10:00:00Z"}) == [("type", one_of)]
    assert told([]) == [("", "not an object")]
    assert json.loads(outgoing({**reading(), "type": "started"}).value)["type"] == "Started"


def test_what_the_service_could_not_place_is_refused() -> None:
    assert told(reading(measuredAt=-(10**15)))[0][0] == ""
    ((where, text),) = told({"type": "Started", "deviceId": "bad", "measuredAt": 0})
    assert (where, text.partition(" at ")[0]) == ("", "ValueError")


def test_a_record_that_is_too_large() -> None:
    error = refused(reading(deviceId="x" * 100), topic(most=100))
    assert (error.code, error.status) == ("RECORD_TOO_LARGE", 413)


def test_a_token_that_is_bound_to_values_of_fields() -> None:
    bounds = {"deviceId": frozenset({"7", "8"})}
    assert outgoing(reading(), bounds=bounds).key == b"7"
    error = refused(reading(deviceId="9"), bounds=bounds)
    assert (error.code, error.status, error.problems[0].field) == ("FIELD_NOT_GRANTED", 403, "deviceId")
    serial = {"sensor.serial": frozenset({"5"})}
    assert outgoing(reading(sensor={"place": "x", "serial": 5}), bounds=serial)
    for sensor in (None, {"place": "x"}, {"place": "x", "serial": 6}):
        assert refused(reading(sensor=sensor), bounds=serial).status == 403
    for name in ("unheard", "lines", "sensor", "deviceId.x", "device_id"):
        assert refused(reading(), bounds={name: frozenset({"7"})}).status == 403


def test_fields_and_times_in_headers() -> None:
    cloud = topic("cloud")
    headers = cloud.headers_of([(b"ce-source", b"here"), (b"ce-time", b"2026-01-31T10:00:00Z"), (b"x", b"y")])
    assert headers == {"ce_source": b"here", "ce_time": b"2026-01-31T10:00:00Z"}
    taken = cloud.outgoing(parse('{"number": 5}'), None, headers)
    assert taken.key == b"5"
    assert taken.headers == [("ce_source", b"here"), ("ce_time", b"2026-01-31T10:00:00Z")]
    with pytest.raises(Refused, match="INVALID_RECORD"):
        cloud.outgoing(parse('{"number": 5}'), None, {})


def test_topics_of_change_events_are_not_offered() -> None:
    assert topics_of(PLAN) == ["readings", "cloud"]
    with pytest.raises(ServiceError, match="has fields in headers"):
        Topic(PLAN, "cloud", Settings("", "avro", 100))


def test_a_topic_of_two_services_is_refused() -> None:
    with pytest.raises(ServiceError, match="expected one service to declare it"):
        by_name([topic(), topic()])


def test_schemas_for_people() -> None:
    schemas = Schemas()
    described = schemas.of_topic(topic().records)
    assert [one["allOf"][1]["properties"]["type"]["const"] for one in described["oneOf"]] == ["Reading", "Started"]
    assert schemas.by_name["Reading"]["required"] == ["deviceId", "measuredAt"]
    assert schemas.by_name["Reading"]["properties"]["lines"] == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Line"},
    }


PARTS = st.sampled_from(["name", "price", "place", "serial", "x"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text(max_size=5)
    | st.floats(-10, 10)
    | st.sampled_from(["2026-01-31T10:00:00Z", "A", "C", 1.5, 2, 1.00001]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PARTS, inner, max_size=4),
    max_leaves=8,
)
NAMES = [f.label for f in CODEC.record.fields]
GOOD = reading(sensor={"place": "x", "serial": 5}, lines=[{"name": "x", "price": 1.5}], metrics={"t": 1.5})


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3), st.sets(st.sampled_from(NAMES), max_size=2))
@settings(max_examples=examples(500))
def test_problems_are_those_for_which_the_codec_refuses(changed: dict[str, Any], left_out: set[str]) -> None:
    members = {**GOOD, **changed}
    document = parse(json.dumps({name: members[name] for name in members if name not in left_out}))
    told_of = list(problems(CODEC.record, document))
    first = first_problem(document)
    assert bool(told_of) == bool(first)
    if told_of:
        assert first.endswith(told_of[0].text)
        assert first.startswith(told_of[0].field.partition("[")[0].partition(".")[0])


def first_problem(document: Any) -> str:
    """What the codec says; empty: it takes the document."""
    try:
        CODEC.from_json(document)
    except Malformed as e:
        return str(e)
    return ""


def test_a_topic_in_confluents_format_is_registered_at_the_start() -> None:
    """No request waits for the registry, not even the first."""
    with RegistryServer() as registry:
        topics = TopicOptions("c-", {"payments": "confluent"}, registry.url)
        options = IngestOptions(["examples.orders.orders:service"], "", "127.0.0.1:0", topics, Limits())
        taken = declared_topics(options)["payments"]
        assert [path for path in registry.state.requests if "c-payments-value" in path]
    members = '{"paymentId": "p", "orderId": "o", "cents": 5, "takenAt": 1769853600000}'
    value = taken.outgoing(parse(members), None).value
    plan = plan_of("examples.orders.orders:service")
    codec = next(c for cls, c in plan.codecs.items() if cls.__name__ == "PaymentTaken")
    assert value[0] == 0
    assert codec.decode(codec.header + value[5:]).cents == 5
