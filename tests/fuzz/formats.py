"""Values of topics: Avro, JSON, Confluent, Debezium, headers; of the enrichment and of services."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st

from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.deadletter import Letter, write
from moneystate.engine.processor import Rejected
from moneystate.errors import BrokerError, StepError, UnknownSchemaId
from moneystate.http import HttpReply
from moneystate.kafka import transaction_log
from moneystate.lookup.wire import Wire
from moneystate.records import iso_time
from moneystate.records.json_value import Json
from moneystate.registry.client import ANSWERS, RegisteredSchema, RegistryClient
from moneystate.registry.confluent import ConfluentFormat
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.json_topic import AVRO, DEBEZIUM, JSON, JsonTopic, heartbeat_in
from moneystate.runtime.plan import Plan
from moneystate.runtime.plans import plan_of
from tests.api.services import basket, mailbox, mirror
from tests.api.test_debezium import CREATED, DELETED, WRAPPED
from tests.enrichment.jobs import DECODER
from tests.enrichment.topics import PLAN
from tests.formats.values import BY_NAME, NAMES, SET, any_datum, body_of, canonical, framed
from tests.formats.values import JSON as AS_JSON
from tests.fuzz.mutation import JSON as ANY_JSON
from tests.fuzz.mutation import fresh, mutated, reshaped
from tests.fuzz.target import result_of, target

SCHEMAS = SET
DEEP = b"[" * 3_000
HEADERS = st.dictionaries(
    st.sampled_from(["place", "mark", "type", "id", "time", "x"]), st.none() | st.binary(max_size=12)
)


def dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


def texts(documents: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return mutated(documents.map(dumped)) | reshaped(documents).map(dumped)


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """A value of the enrichment's topics in canonical form."""
    type_schema = BY_NAME[draw(st.sampled_from(NAMES))]
    return canonical(type_schema, draw(any_datum(type_schema)))


VALUES = values()


# The enrichment's own formats


@target("formats.events", mutated(VALUES))
def read_event(value: bytes) -> None:
    for topic, by_header in PLAN.inputs.items():
        got = result_of(lambda code=topic: DECODER.decode(code, value), Rejected)  # type: ignore[misc]
        if got is not None and value[:HEADER_BYTES] in by_header:
            by_header[value[:HEADER_BYTES]].codec.decode(value)  # of what was accepted, everything can be read


@target("formats.avro", mutated(VALUES))
def open_value(value: bytes) -> None:
    result_of(lambda: SCHEMAS.open(value), Rejected)


@target("formats.json", texts(VALUES.map(lambda v: json.loads(AS_JSON.from_canonical(v)))), DEEP)
def read_json(value: bytes) -> None:
    made = result_of(lambda: AS_JSON.to_canonical(value), Rejected)
    if made is not None:
        assert AS_JSON.to_canonical(AS_JSON.from_canonical(made)) == made


WIRE = Wire(next(iter(plan_of("services.enrichment.service:service").lookups.values())))


@target("formats.lookup", mutated(VALUES), share=0.5)
def read_request(value: bytes) -> None:
    for read in (WIRE.request, WIRE.answered):
        made = result_of(lambda read=read: read(value), Rejected)  # type: ignore[misc]
        assert made is None or made


# Confluent: framing and foreign writer schemas, with a registry in memory

SCHEMA_SERVER = "http://127.0.0.1:1"  # never asked: the answers come from memory
SOURCES = [BY_NAME[name].source for name in NAMES]


class Registry(RegistryClient):
    """Answers from memory."""

    def __init__(self, schemas: dict[int, str]) -> None:
        super().__init__(SCHEMA_SERVER)
        self.known = schemas

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        text = self.known.get(schema_id)
        return None if text is None else RegisteredSchema(text)


@st.composite
def confluent(draw: st.DrawFn) -> tuple[str, bytes]:
    """A writer schema, and a value of it or of something else."""
    name = draw(st.sampled_from(NAMES))
    source = json.loads(json.dumps(BY_NAME[name].source))
    body = body_of(BY_NAME[name].source, draw(any_datum(BY_NAME[name])))
    if draw(st.booleans()):
        writer = json.dumps(draw(reshaped(st.just(source)))) if draw(st.booleans()) else draw(_TEXT)
    else:
        writer = json.dumps(source)
    return writer, draw(mutated(st.just(framed(1, body))))


_TEXT = mutated(st.sampled_from(SOURCES).map(dumped)).map(lambda content: content.decode(errors="replace"))
NULLS = {"name": "x", "type": {"type": "array", "items": "null"}}


def with_nulls(blocks: int) -> tuple[str, bytes]:
    """Many blocks of items without bytes."""
    source = BY_NAME["Heartbeat"].source
    writer = source | {"fields": [*source["fields"], NULLS]}
    return json.dumps(writer), framed(1, b"\x00" + b"\xfe\xff\x01" * blocks + b"\x00" * 40_000)


@target("formats.confluent", confluent(), ("[" * 5_000, framed(1, b"")), with_nulls(20_000), share=0.5)
def read_confluent(given: tuple[str, bytes]) -> None:
    writer, value = given
    made = ConfluentFormat(SCHEMAS, Registry({1: writer}), None, 0.0)
    read = result_of(lambda: made(value), Rejected, UnknownSchemaId)
    assert read is None or SCHEMAS.open(read).prefix == read[:10]


REPLIES = st.sampled_from([200, 404, 500, 302, 401])


@target("formats.registry", st.tuples(REPLIES, texts(fresh(lambda: {"schema": '"string"', "id": 3}))), (200, DEEP))
def read_registry(given: tuple[int, bytes]) -> None:
    status, body = given
    client = RegistryClient(
        SCHEMA_SERVER, sleep=lambda _: None, send=lambda _call, _timeout_s: HttpReply(status, {}, body)
    )
    ANSWERS.clear()
    for call in (lambda: client.schema(1), lambda: client.register("s", '"string"')):
        result_of(call, BrokerError)


# Services


@target("formats.times", st.text(max_size=30) | mutated(st.datetimes().map(lambda t: f"{t.isoformat()}Z".encode())).map(
    lambda content: content.decode(errors="replace")))  # fmt: skip
def read_time(text: str) -> None:
    ms = result_of(lambda: iso_time.to_ms(text), Malformed)
    assert ms is None or iso_time.to_ms(iso_time.from_ms(ms)) == ms


@target("formats.any_json", ANY_JSON.map(dumped) | mutated(ANY_JSON.map(dumped)), DEEP)
def read_any_json(content: bytes) -> None:
    made = result_of(lambda: Json(content.decode(errors="surrogateescape")), ValueError)
    if made is not None:
        assert Json(made.text) == made
        assert result_of(lambda: Json.of(made.value()), ValueError) is None or made.members() is not None


PLANS = [Plan(service) for service in (basket.service, mailbox.service, mirror.service)]
WITH_FUNCTIONS = {planned.topic for planned in mailbox.service.inputs if planned.decode is not None}
FORMS = [[AVRO, JSON], [JSON], [DEBEZIUM]]


@st.composite
def letters(draw: st.DrawFn) -> tuple[int, str, Letter]:
    """A record for one of the services, in any format."""
    number = draw(st.integers(0, len(PLANS) - 1))
    plan = PLANS[number]
    topic = draw(st.sampled_from(sorted(plan.topics.values())))
    documents = fresh(lambda: {"type": "Heartbeat", "processedAt": 9}) | st.sampled_from(
        [CREATED, DELETED, WRAPPED]
    ).map(lambda d: json.loads(json.dumps(d)))
    fields = st.dictionaries(st.sampled_from(_names(plan)), ANY_JSON)
    heads = [codec.header for codec in plan.codecs.values()] + [plan.heartbeat.header]
    avro = st.builds(lambda head, body: head + body, st.sampled_from(heads), st.binary(max_size=60))
    value = draw(st.none() | texts(documents) | texts(fields) | mutated(avro))
    headers = list(draw(HEADERS).items())
    return number, topic, Letter(topic, 0, 1, 5, draw(st.none() | st.binary(max_size=5)), value, headers)


def _names(plan: Plan) -> list[str]:
    return sorted({"type"} | {f.wire for codec in plan.codecs.values() for f in codec.record.fields})


@target("formats.service", letters())
def read_record(given: tuple[int, str, Letter]) -> None:
    number, topic, letter = given
    plan = PLANS[number]
    code = next(code for code, name in plan.topics.items() if name == topic)
    decoder = ServiceDecoder(plan)
    for form in FORMS[number]:
        formats = dict.fromkeys(plan.topics.values(), form)
        whole = decoder.reads(formats, {}).get(code)
        if whole is not None:
            _reject(whole, letter, letter)
        if letter.value is not None:
            value = decoder.values(formats).get(code)
            if value is not None:
                _reject(value, letter.value, letter)
    if letter.value is not None:
        _reject(partial(decoder.decode, code), letter.value, letter)
        _reject(JsonTopic(plan, topic).to_canonical, letter.value, letter)
        result_of(partial(heartbeat_in, letter.value, plan.heartbeat), Malformed)


def _reject(read: Callable[[Any], Any], content: Any, letter: Letter) -> None:
    """No record ends a job: each is read, or becomes a dead letter. Only a service's own `decode=` may fail."""
    try:
        read(content)
    except Rejected as e:
        write(letter, e.reason, e.detail)
    except StepError:
        if letter.topic not in WITH_FUNCTIONS:
            raise


# The brokers' log of transactions


def transaction(version: int) -> bytes:
    fixed = version.to_bytes(2, "big") + bytes(8) + bytes(2) + bytes(4) + b"\x01"
    topics = (
        b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x05"
        if version == 0
        else b"\x02\x02t\x02\x00\x00\x00\x05\x00"
    )
    return fixed + topics + bytes(16)


@target("formats.transactions", mutated(st.sampled_from([transaction(0), transaction(1)])))
def read_transaction(value: bytes) -> None:
    result_of(lambda: transaction_log.decode("id", value), BrokerError)
