"""Reads whole records, with key and headers: by the service's own functions, or by fields that come from headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from moneystate.api.message import Message, NamesSchema, message_of
from moneystate.api.reject import Reject
from moneystate.api.salvage import salvages
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.deadletter import Letter
from moneystate.engine.place import MARK, PLACE, header_of, time_of
from moneystate.engine.processor import Convert, Decoded, Rejected
from moneystate.errors import BrokerError, StepError, UnknownSchemaId
from moneystate.records.codec import Codec
from moneystate.records.reading import NO_HEADERS, Headers
from moneystate.runtime.failures import EXCEPTION, failed_at
from moneystate.runtime.input_checks import check_header_fields
from moneystate.runtime.json_topic import DEBEZIUM, JSON, ChangeTopic, JsonTopic, heartbeat_in, with_headers
from moneystate.runtime.plan_parts import InputPlan

if TYPE_CHECKING:
    from moneystate.runtime.decoder import ServiceDecoder


class WholeReader:
    """Reads the records of one topic (`moneystate.engine.processor.Read`). Without `functions`, it expects records that
    `decode` and `fallback` have already converted."""

    def __init__(
        self, decoder: ServiceDecoder, topic: int, format: str, convert: Convert | None, functions: bool = True
    ) -> None:
        plan = decoder.plan
        self.decoder = decoder
        self.code = topic
        self.topic = plan.topics[topic]
        self.heartbeat = plan.heartbeat
        inputs = list(plan.inputs[topic].values())
        self.decoders = [(i, i.decode) for i in inputs if i.decode is not None and functions]
        # the format of the run decides whether there is JSON to salvage, not the declared one
        unused = [i for i in inputs if functions and salvages(i.fallback) and format != JSON]
        self.fallbacks = [(i, i.fallback) for i in inputs if i.fallback is not None and functions and i not in unused]
        self.unused_types = {i.codec.header for i in unused if len(inputs) > 1}
        self.has_format = len(self.decoders) < len(inputs)
        self.json = JsonTopic(plan, self.topic) if format == JSON else None
        self.changes = ChangeTopic(plan, self.topic) if format == DEBEZIUM else None
        self.convert = convert  # of the topic's format; None: values are in canonical form
        self.timed = any(i.timed for i in inputs)
        self.reads_headers = any(i.reads_headers() for i in inputs)
        # an input whose fields all come from headers
        self.from_headers = next((i for i in inputs if functions and i.is_all_headers), None)
        for planned in inputs if functions else []:
            check_header_fields(f"service {plan.name!r}: input {self.topic!r}", planned, format)

    def __call__(self, record: Letter) -> Decoded | None:
        return self._read_timed(record) if self.timed else self._read(record)

    def _read_timed(self, record: Letter) -> Decoded | None:
        """Reads a record of a timed stream. Its time is the time of its place, or of its mark; a mark has no key.
        Heartbeats are ignored, because only marks advance the time of a timed stream."""
        mark = header_of(record.headers, MARK)
        if mark is not None:
            watermark = time_of(mark)
            if watermark is None:
                raise Rejected("malformed", "expected a time in the header mark")
            return b"", watermark, None
        decoded = self._read(record)
        if decoded is None or decoded[2] is None:
            return None
        time = time_of(header_of(record.headers, PLACE))
        if time is None:
            raise Rejected("no_place", "expected the header place, which the writer of a timed stream sets")
        return decoded[0], time, decoded[2]

    def _read(self, record: Letter) -> Decoded | None:
        if self.changes is not None and record.value is None:
            return None  # a tombstone: the record before it has the deletion
        headers = dict(record.headers) if self.reads_headers else NO_HEADERS
        try:
            return self._read_value(record, headers)
        except Rejected:
            canonical = self._convert(record, self.fallbacks)
            if canonical is None:
                raise
        return self.decoder.decode(self.code, canonical, headers)

    def _read_value(self, record: Letter, headers: Headers) -> Decoded | None:
        """None: no input takes the record. Raises Rejected."""
        canonical = self._read_without_format(record, headers)
        if canonical is None:
            if not self.has_format:
                return None
            if record.value is None:
                raise Rejected("null_value")
            if self.json is not None:
                canonical, codec, decoded = self.json.read(record.value, headers)
                return self.decoder.decode_read(self.code, canonical, codec, decoded, headers)
            canonical = self._read_by_format(record.value, record.key)
        return self.decoder.decode(self.code, canonical, headers)

    def _read_without_format(self, record: Letter, headers: Headers) -> bytes | None:
        """The canonical value, if the topic's format is not needed to read it. Raises Rejected."""
        try:
            if self.decoders or self.from_headers is not None:
                heartbeat = heartbeat_in(record.value, self.heartbeat)
                if heartbeat is not None:
                    return heartbeat
            if self.from_headers is not None:
                codec = self.from_headers.codec
                return codec.encode(codec.from_json(with_headers({}, self.from_headers.from_headers, headers)))
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None
        return self._convert(record, self.decoders)

    def _read_by_format(self, value: bytes, key: bytes | None) -> bytes:
        if self.changes is not None:
            return self.changes.to_canonical(value, key)
        canonical = value if self.convert is None else self.convert(value)
        if canonical[:HEADER_BYTES] in self.unused_types:
            raise Rejected("unknown_schema", "a type that only ms.salvage makes")
        return canonical

    def _schema_of(self, value: bytes | None) -> str:
        """Finds the schema for `Message.schema`. Raises Reject."""
        if value is None:
            raise Reject("null_value")
        converter: object = self.convert
        if not isinstance(converter, NamesSchema):
            raise Reject("unknown_schema", "the topic's format names no schema, or there is no schema registry")
        try:
            return converter.schema_of(value)
        except Rejected as e:
            raise Reject(e.reason, e.detail) from None

    def _convert(self, letter: Letter, functions: Sequence[tuple[InputPlan, Callable[[Message], Any]]]) -> bytes | None:
        """The canonical value, from the first function that accepts the record. None: no function does. Raises
        Rejected, and StepError with the record's coordinates."""
        if not functions:
            return None
        message = message_of(self.topic, letter, partial(self._schema_of, letter.value))
        for planned, function in functions:
            made = made_by(function, message, planned.codec, self.decoder.dead_letter_errors)
            if made is not None:
                return made[1]
        return None


def made_by(
    function: Callable[[Message], Any], message: Message, codec: Codec, dead_letter_errors: bool
) -> tuple[Any, bytes] | None:
    """The record that a function of the service makes, also in canonical form; None: it makes none. Raises Rejected,
    and StepError with the record's coordinates."""
    try:
        record = function(message)
        if record is None:
            return None
        if type(record) is not codec.record.cls:
            expected = codec.record.cls.__name__
            raise StepError(
                f"expected {expected}, found {type(record).__name__}.",
                f"return an object of {expected}, or None if another function reads the record.",
            )
        return record, codec.encode(record)
    except Reject as e:
        raise Rejected(e.reason, e.detail) from None
    except (Malformed, ValueError) as e:
        raise Rejected("malformed", str(e)) from None
    except (BrokerError, UnknownSchemaId):  # the schema registry: no record is to blame
        raise
    except Exception as e:
        name = getattr(function, "__name__", repr(function))
        line = failed_at(message.topic, message.partition, message.offset, name, e)
        if not dead_letter_errors:
            raise StepError(*line) from e
        raise Rejected(EXCEPTION, line[0]) from None
