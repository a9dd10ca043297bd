"""The topic formats `json` and `debezium` of plain services.

`json` is one object with the record's fields and, first, its type, which may be left out where a topic has records of
one type. A heartbeat is recognised in every topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moneystate.api.codec import Codec
from moneystate.api.json_number import Number
from moneystate.api.json_text import MAX_RECORD_LEVELS, parse
from moneystate.api.plan import InputPlan, Plan
from moneystate.api.reading import NO_HEADERS, Headers, header_text, is_whole_number
from moneystate.api.shapes import Field, Maybe, Plain
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.processor import Rejected

AVRO: Final = "avro"
JSON: Final = "json"
DEBEZIUM: Final = "debezium"
TYPE: Final = "type"
HEARTBEAT: Final = "Heartbeat"
_HEARTBEAT_FIELDS: Final = {TYPE, "processedAt"}
_WRAPPER: Final = {"schema", "payload"}
_TRUTHS: Final = {"true": True, "false": False}


class JsonTopic:
    def __init__(self, plan: Plan, topic: str) -> None:
        self.heartbeat = plan.heartbeat
        by_code = {name: code for code, name in plan.topics.items()}
        inputs = list(plan.inputs[by_code[topic]].values()) if topic in by_code else []
        self.codecs = {codec.record.short: codec for codec in [*_codecs(plan), plan.heartbeat]}
        self.by_header = {codec.header: codec for codec in self.codecs.values()}
        self.from_headers = {i.codec.header: i.from_headers for i in inputs if i.from_headers}
        self.only = only_of(inputs)
        # made by functions of the service, so nobody sends them
        self.made = {i.codec.record.short for i in inputs if i.decode is not None or i.fallback is not None}

    def to_canonical(self, value: bytes) -> bytes:
        """Raises Rejected."""
        return self.read(value)[0]

    def read(self, value: bytes, headers: Headers = NO_HEADERS) -> tuple[bytes, Codec, Any]:
        """The canonical form, and the record with its codec. Raises Rejected."""
        try:
            document = parse_value(value)
            codec = self._codec(document)
            fields = self.from_headers.get(codec.header)
            if fields:
                document = with_headers(document, fields, headers)
            record = codec.from_json(document)
            return codec.encode(record), codec, record
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None

    def _codec(self, document: Any) -> Codec:
        if type(document) is not dict:
            raise Malformed("not an object")
        name = document.get(TYPE)
        if self.only is not None and (name is None or _has_type(self.only)):
            return self.heartbeat if is_heartbeat(document) else self.only
        if type(name) is not str:
            raise Malformed("type: not a text" if TYPE in document else "type: missing")
        if name not in self.codecs or name in self.made:
            raise Rejected("unknown_schema", f"type {name[:100]!r}")
        return self.codecs[name]

    def from_canonical(self, value: bytes) -> bytes:
        """Of what the service has put out. Raises Rejected."""
        codec = self.by_header.get(value[:HEADER_BYTES])
        if codec is None:
            raise Rejected("unknown_schema", f"fingerprint {value[2:HEADER_BYTES].hex()}")
        return codec.transcode(value, HEADER_BYTES)


class ChangeTopic:
    """Debezium's change events, in JSON with or without their schema: `before`, `after`, `op`, `ts_ms` and `source`.
    Columns keep their names."""

    def __init__(self, plan: Plan, topic: str) -> None:
        code = next(code for code, name in plan.topics.items() if name == topic)
        self.heartbeat = plan.heartbeat
        codec = only_of(list(plan.inputs[code].values()))
        assert codec is not None  # the plan has seen to it
        self.codec = codec

    def to_canonical(self, value: bytes) -> bytes:
        """Raises Rejected."""
        try:
            document = parse_value(value)
            if type(document) is not dict:
                raise Malformed("not an object")
            if is_heartbeat(document):
                return self.heartbeat.encode(self.heartbeat.from_json(document))
            if "payload" in document and document.keys() <= _WRAPPER:
                document = document["payload"]
            return self.codec.encode(self.codec.from_row(document))
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None


def only_of(inputs: Sequence[InputPlan]) -> Codec | None:
    """Of the one type that a topic's values have; what a function makes of them besides has a type of its own."""
    mine = inputs if len(inputs) == 1 else [i for i in inputs if i.decode is None and i.fallback is None]
    return mine[0].codec if len(mine) == 1 else None


def parse_value(value: bytes) -> Any:
    """Raises Malformed."""
    try:
        return parse(value.decode(), MAX_RECORD_LEVELS)
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None


def is_heartbeat(document: dict[str, Any]) -> bool:
    """Where a record has no type, or a field of that name: exactly a heartbeat's members."""
    return document.get(TYPE) == HEARTBEAT and document.keys() == _HEARTBEAT_FIELDS


def heartbeat_in(value: bytes | None, codec: Codec) -> bytes | None:
    """The heartbeat that a value is, in canonical form, whatever the topic's records are. Raises Malformed."""
    if value is None or value[:HEADER_BYTES] == codec.header:
        return value
    if b'"Heartbeat"' not in value or value.lstrip()[:1] != b"{":
        return None
    try:
        document = parse_value(value)
    except Malformed:
        return None
    return codec.encode(codec.from_json(document)) if is_heartbeat(document) else None


def with_headers(document: dict[str, Any], fields: Sequence[Field], headers: Headers) -> dict[str, Any]:
    """The object with the members that are in headers. Raises Malformed."""
    made = {name: value for name, value in document.items() if all(name != f.wire for f in fields)}
    for f in fields:
        if headers.get(f.header) is not None:
            made[f.wire] = _member(f, header_text(headers, f.header))
        elif f.default is None:
            if not isinstance(f.shape, Maybe):
                raise Malformed(f"no header {f.header}")
            made[f.wire] = None
    return made


def _member(f: Field, text: str) -> Any:
    """As JSON would have it."""
    shape = f.shape.of if isinstance(f.shape, Maybe) else f.shape
    kind = shape.kind if isinstance(shape, Plain) else ""
    if kind == "boolean":
        return _TRUTHS.get(text, text)
    return Number(text) if kind in ("long", "millis") and is_whole_number(text) else text


def _codecs(plan: Plan) -> list[Codec]:
    read = [taken.codec for inputs in plan.inputs.values() for taken in inputs.values()]
    return [*read, *[output.codec for output in plan.outputs.values()]]


def _has_type(codec: Codec) -> bool:
    """Whether the record has a field of that name of its own."""
    return any(f.wire == TYPE for f in codec.record.fields)
