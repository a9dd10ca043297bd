"""The topics that are written, with the records that services declare for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

from moneystate.api.handles import Input
from moneystate.engine.avro import Malformed
from moneystate.engine.inputs import is_pattern
from moneystate.engine.processor import Rejected
from moneystate.errors import MoneystateError, ServiceError
from moneystate.ingest.refusals import Found, Refused
from moneystate.ingest.rights import UNBOUND, Bounds
from moneystate.records.codec import Codec
from moneystate.records.json_problems import problems
from moneystate.records.reading import NO_HEADERS, Headers, checked_time, header_time
from moneystate.records.shapes import Array, Maybe, Record, Shape, Table
from moneystate.records.types import Header
from moneystate.runtime.failures import line_of
from moneystate.runtime.json_topic import AVRO, CONFLUENT, JSON, JsonTopic, with_headers
from moneystate.runtime.json_topic_checks import read_by_format
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import InputPlan

FORMATS: Final = (AVRO, JSON, CONFLUENT)

ToTopic = Callable[[bytes], bytes]
"""From a value in canonical form to the topic's form."""


class Outgoing(NamedTuple):
    """A record for Kafka. The topic has its prefix."""

    topic: str
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]] | None


class Wanted(NamedTuple):
    """An HTTP header that becomes a Kafka header."""

    name: bytes  # in lower case, as ASGI has it
    header: str


@dataclass(frozen=True)
class Settings:
    """Describes how a topic is written."""

    prefix: str
    format: str
    max_record_bytes: int
    to_topic: ToTopic | None = None  # for the format confluent


class Topic:
    """A topic: turns parsed documents into records for Kafka."""

    def __init__(self, plan: Plan, name: str, settings: Settings) -> None:
        """Raises ServiceError for a topic whose records this command cannot make."""
        self.name = name  # without prefix
        self.topic = settings.prefix + name
        self.format = settings.format
        self.max_record_bytes = settings.max_record_bytes
        code = plan.codes[name]
        self._json = JsonTopic(plan, name)
        inputs = [i for i in plan.inputs[code].values() if i.codec.record.type_name in self._json.codecs]
        _check_fields(plan, name, settings.format, inputs)
        self._inputs = {i.codec.header: i for i in inputs}
        self.records = [i.codec.record for i in inputs]
        self.is_by_arrival = any(i.arrival for i in inputs)  # then its records have the broker's timestamps
        self._writes = {i.codec.header: _writer(i.codec, settings) for i in inputs}
        self.wanted = _wanted(inputs)
        self._paths: dict[tuple[bytes, str], Callable[[Any], Any] | None] = {}

    def headers_of(self, raw: Sequence[tuple[bytes, bytes]]) -> dict[str, bytes | None]:
        """The Kafka headers among a request's headers."""
        given = dict(raw)
        return {header: given[name] for name, header in self.wanted if name in given}

    def outgoing(
        self, document: Any, index: int | None, headers: Headers = NO_HEADERS, bounds: Bounds = UNBOUND
    ) -> Outgoing:
        """The record of a document. Raises Refused, with all problems of the record."""
        planned = self._planned(document, index)
        codec = planned.codec
        try:
            if planned.from_headers:
                document = with_headers(document, planned.from_headers, headers)
            record = codec.from_json(document)
            value = self._writes[codec.header](record)
            key = None if planned.keys is None else planned.keys.keys(record, headers)[0]
            _check_time(planned, record, headers)
        except Malformed as e:
            raise _invalid(codec.record, document, index, str(e)) from None
        except MoneystateError as e:  # a value that the topic's format cannot represent
            raise _invalid(codec.record, document, index, e.message) from None
        except Exception as e:  # of the service's own code: its record's checks, or a function for key or time
            raise _invalid(codec.record, document, index, f"{type(e).__name__}{line_of(e)}: {e}") from None
        if len(value) > self.max_record_bytes:
            raise Refused("RECORD_TOO_LARGE", f"expected a record of at most {self.max_record_bytes:,} bytes.")
        if bounds:
            self._check_bounds(codec, record, bounds, index)
        kafka_headers = [(name, content) for name, content in headers.items() if content is not None]
        return Outgoing(self.topic, key, value, kafka_headers or None)

    def _planned(self, document: Any, index: int | None) -> InputPlan:
        if isinstance(document, Malformed):
            raise _refused(index, "", str(document))
        try:
            codec = self._json.codec_of(document)
        except Malformed as e:
            field, _, text = str(e).rpartition(": ")
            raise _refused(index, field, text) from None
        except Rejected:
            raise _refused(index, "type", self._one_of()) from None
        planned = self._inputs.get(codec.header)
        if planned is None:
            raise _refused(index, "type", self._one_of())
        return planned

    def _one_of(self) -> str:
        return "not one of " + ", ".join([record.type_name for record in self.records])

    def _check_bounds(self, codec: Codec, record: Any, bounds: Bounds, index: int | None) -> None:
        """Raises Refused for a record with a value that the caller's token does not allow."""
        wrong = [field for field, values in bounds.items() if self._text_at(codec, field, record) not in values]
        if wrong:
            raise Refused(
                "FIELD_NOT_GRANTED",
                "expected the values that the token is bound to.",
                [Found(index, field, "not a value that the token is bound to") for field in wrong],
            )

    def _text_at(self, codec: Codec, field: str, record: Any) -> str | None:
        """The value of a field as text; None: it has none, or the record has no such field."""
        place = (codec.header, field)
        if place not in self._paths:
            self._paths[place] = _reader(codec.record, field)
        read = self._paths[place]
        value = None if read is None else read(record)
        return str(value) if type(value) in (str, int) else None


def topics_of(plan: Plan) -> list[str]:
    """The topics of a service that other programs write, in the order of their declaration. Those of a pattern are not
    known by name."""
    topics = dict.fromkeys([i.topic for i in plan.service.inputs if i.format in FORMATS and not i.timed])
    return [topic for topic in topics if not is_pattern(topic) and _by_format(plan, topic)]


def _by_format(plan: Plan, topic: str) -> list[Input[Any]]:
    """The inputs of a topic whose records no function of the service makes."""
    read = read_by_format([i for i in plan.service.inputs if i.topic == topic])
    return [i for i in read if i.decode is None and i.fallback is None]


def _writer(codec: Codec, settings: Settings) -> Callable[[Any], bytes]:
    if settings.format == JSON:
        return codec.to_json
    if settings.to_topic is None:
        return codec.encode
    to_topic = settings.to_topic
    return lambda record: to_topic(codec.encode(record))


def _check_fields(plan: Plan, name: str, format: str, inputs: Sequence[InputPlan]) -> None:
    where = f"service {plan.name!r}: topic {name!r}"
    if not inputs:
        raise ServiceError(f"{where}: expected records that the topic's format decodes, found none.", "leave it out.")
    if format != JSON and any(i.from_headers for i in inputs):
        raise ServiceError(
            f"{where}: has fields in headers, but a value in {format} has all fields.", "give it the format json."
        )


def _wanted(inputs: Sequence[InputPlan]) -> list[Wanted]:
    names: dict[str, None] = {}
    for planned in inputs:
        names.update(dict.fromkeys([f.header for f in planned.from_headers]))
        if planned.time_header:
            names[planned.time_header] = None
        parts = planned.keys.parts if planned.keys is not None else []
        names.update(dict.fromkeys([part.name for part in parts if isinstance(part, Header)]))
    return [Wanted(name.lower().replace("_", "-").encode(), name) for name in names]


def _check_time(planned: InputPlan, record: Any, headers: Headers) -> None:
    """Raises Malformed for a record that the service could not place in time."""
    if planned.time_header:
        header_time(headers, planned.time_header)
    else:
        checked_time(planned.time(record))


def _invalid(record: Record, document: Any, index: int | None, first: str) -> Refused:
    told = [Found(index, problem.field, problem.text) for problem in problems(record, document)]
    return _with(told or [Found(index, "", first)])


def _refused(index: int | None, field: str, text: str) -> Refused:
    return _with([Found(index, field, text)])


def _with(problems_of_it: list[Found]) -> Refused:
    return Refused("INVALID_RECORD", "expected records as they are declared for the topic.", problems_of_it)


def _reader(record: Record, path: str) -> Callable[[Any], Any] | None:
    """Reads the field at a path of JSON names; None: the record has no such field."""
    names: list[str] = []
    shape: Shape = record
    for label in path.split("."):
        shape = shape.inner if isinstance(shape, Maybe) else shape
        field = next((f for f in shape.fields if f.label == label), None) if isinstance(shape, Record) else None
        if field is None or isinstance(field.shape, (Array, Table)):
            return None
        names.append(field.name)
        shape = field.shape
    read = attrgetter(".".join(names))

    def at(value: Any) -> Any:
        try:
            return read(value)
        except AttributeError:  # a record on the way is absent
            return None

    return at


def by_name(topics: Sequence[Topic]) -> Mapping[str, Topic]:
    """Raises ServiceError for a topic that two services declare: which records it takes would not be clear."""
    named: dict[str, Topic] = {}
    for topic in topics:
        if topic.name in named:
            raise ServiceError(
                f"topic {topic.name!r}: expected one service to declare it, found several.", "name one service."
            )
        named[topic.name] = topic
    return named
