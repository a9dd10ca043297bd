"""The topic formats `json` and `debezium` of services.

A `json` value is one object with the record's type and fields. The type may be missing if the topic has only one type.
Every topic accepts heartbeats. `type_names` checks that a topic's types can be told apart.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.processor import Rejected
from moneystate.records.change_values import converted
from moneystate.records.codec import Codec
from moneystate.records.json_number import Number
from moneystate.records.json_text import MAX_RECORD_LEVELS, decoded, parse
from moneystate.records.reading import NO_HEADERS, Headers, header_text, is_whole_number
from moneystate.records.shapes import Field, Maybe, Plain
from moneystate.records.type_names import HEARTBEAT, TYPE, has_type_field, is_heartbeat, spelled
from moneystate.runtime.json_topic_checks import check_json_topic
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import InputPlan

AVRO: Final = "avro"
JSON: Final = "json"
CONFLUENT: Final = "confluent"
DEBEZIUM: Final = "debezium"
_WRAPPER: Final = {"schema", "payload"}
_TRUTHS: Final = {"true": True, "false": False}


class JsonTopic:
    """Reads and writes the values of a topic in JSON."""

    def __init__(self, plan: Plan, topic: str) -> None:
        """Raises ServiceError if the topic's records cannot be told apart in JSON."""
        check_json_topic(plan, topic)
        self.heartbeat = plan.heartbeat
        by_code = {name: code for code, name in plan.topics.items()}
        inputs = list(plan.inputs[by_code[topic]].values()) if topic in by_code else []
        made = [i for i in inputs if i.decode is not None or i.fallback is not None]  # producers do not send these
        self.codecs = {i.codec.record.type_name: i.codec for i in inputs if i not in made}
        spellings = Counter([spelled(name) for name in self.codecs])
        # Producers may spell names in another style: `order.placed`, `order_placed`.
        self.by_spelling = {
            spelled(name): codec for name, codec in self.codecs.items() if spellings[spelled(name)] == 1
        }
        codecs = _codecs(plan)
        # The types of other topics are needed to say why a record does not belong here.
        unknown = {i.codec.record.type_name for i in made}
        self.elsewhere = {
            codec.record.type_name: codec for codec in reversed(codecs) if codec.record.type_name not in unknown
        }
        self.by_header = {codec.header: codec for codec in [*codecs, plan.heartbeat]}
        self.from_headers = {i.codec.header: i.from_headers for i in inputs if i.from_headers}
        self.only = only_codec(inputs)  # of the topic's only type; None: it has several
        self.only_has_type = self.only is not None and has_type_field(self.only.record)

    def to_canonical(self, value: bytes) -> bytes:
        """Raises Rejected."""
        return self.read(value)[0]

    def read(self, value: bytes, headers: Headers = NO_HEADERS) -> tuple[bytes, Codec, Any]:
        """The canonical form, and the record with its codec. Raises Rejected."""
        try:
            document = parse_value(value)
            codec = self.codec_of(document)
            fields = self.from_headers.get(codec.header)
            if fields:
                document = with_headers(document, fields, headers)
            record = codec.from_json(document)
            return codec.encode(record), codec, record
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None

    def codec_of(self, document: Any) -> Codec:
        """The codec of a document's type. Raises Malformed, and Rejected for a type that is not known."""
        if type(document) is not dict:
            raise Malformed("not an object")
        name = document.get(TYPE)
        if name == HEARTBEAT and is_heartbeat(document):
            return self.heartbeat
        if self.only is not None and (name is None or self.only_has_type):
            return self.only
        if type(name) is not str:
            raise Malformed("type: not a text" if TYPE in document else "type: missing")
        codec = self.codecs.get(name)
        if codec is None:
            codec = self.elsewhere.get(name)
        if codec is None:
            codec = self.by_spelling.get(spelled(name))
        if codec is None:
            raise Rejected("unknown_schema", f"type {name[:100]!r}")
        return codec

    def from_canonical(self, value: bytes) -> bytes:
        """The JSON of an output's canonical value. Raises Rejected."""
        codec = self.by_header.get(value[:HEADER_BYTES])
        if codec is None:
            raise Rejected("unknown_schema", f"fingerprint {value[2:HEADER_BYTES].hex()}")
        return codec.transcode(value, HEADER_BYTES)


class ChangeTopic:
    """Reads Debezium's change events (`before`, `after`, `op`, `ts_ms`, `source`) in JSON, with or without a schema.
    Columns keep their names. Their values mean what the schema says (`change_values`)."""

    def __init__(self, plan: Plan, topic: str) -> None:
        code = next(code for code, name in plan.topics.items() if name == topic)
        self.heartbeat = plan.heartbeat
        inputs = list(plan.inputs[code].values())
        codec = only_codec(inputs)
        assert codec is not None  # `check_input` allows only one type
        self.codec = codec
        self.unavailable = next(i.unavailable for i in inputs if i.codec is codec)

    def to_canonical(self, value: bytes, key: bytes | None = None) -> bytes:
        """`key`: of the Kafka record, which has the columns of the table's key. Raises Rejected."""
        try:
            document = parse_value(value)
            if type(document) is not dict:
                raise Malformed("not an object")
            if is_heartbeat(document):
                return self.heartbeat.encode(self.heartbeat.from_json(document))
            schema: Any = {}
            if "payload" in document and document.keys() <= _WRAPPER:
                document, schema = document["payload"], document.get("schema")
            return self.codec.encode(self.codec.from_row(self._converted(document, schema, key)))
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None

    def _converted(self, payload: Any, schema: Any, key: bytes | None) -> Any:
        assert self.unavailable is not None  # the plan has set it
        payload, marks = self.unavailable.split(payload, key)
        members = converted(self.codec.record, payload, schema)
        for row, columns in marks.items():
            members[row] = {**members[row], **columns}
        return members


def only_codec(inputs: Sequence[InputPlan]) -> Codec | None:
    """The codec of a topic whose values have only one type; None: there are several. Types that functions make from
    the values do not count."""
    by_format = inputs if len(inputs) == 1 else [i for i in inputs if i.decode is None and i.fallback is None]
    return by_format[0].codec if len(by_format) == 1 else None


def parse_value(value: bytes) -> Any:
    """Raises Malformed."""
    return parse(decoded(value), MAX_RECORD_LEVELS)


def heartbeat_in(value: bytes | None, codec: Codec) -> bytes | None:
    """The heartbeat in a value, in canonical form, for topics of any format; None: it is not a heartbeat. Raises
    Malformed."""
    if value is None or value[:HEADER_BYTES] == codec.header:
        return value
    if b'"Heartbeat"' not in value or value.removeprefix(BOM_UTF8).lstrip()[:1] != b"{":
        return None
    try:
        document = parse_value(value)
    except Malformed:
        return None
    return codec.encode(codec.from_json(document)) if is_heartbeat(document) else None


def with_headers(document: dict[str, Any], fields: Sequence[Field], headers: Headers) -> dict[str, Any]:
    """The object, with the members that come from headers. Raises Malformed."""
    members = {name: value for name, value in document.items() if all(name != f.label for f in fields)}
    for f in fields:
        if headers.get(f.header) is not None:
            members[f.label] = _member(f, header_text(headers, f.header))
        elif f.default is None:
            if not isinstance(f.shape, Maybe):
                raise Malformed(f"no header {f.header}")
            members[f.label] = None
    return members


def _member(f: Field, text: str) -> Any:
    """A header's text as a JSON value of the field's type."""
    shape = f.shape.inner if isinstance(f.shape, Maybe) else f.shape
    kind = shape.kind if isinstance(shape, Plain) else ""
    if kind == "boolean":
        return _TRUTHS.get(text, text)
    return Number(text) if kind in ("long", "millis") and is_whole_number(text) else text


def _codecs(plan: Plan) -> list[Codec]:
    read = [planned.codec for inputs in plan.inputs.values() for planned in inputs.values()]
    return [*read, *[output.codec for output in plan.outputs.values()]]
