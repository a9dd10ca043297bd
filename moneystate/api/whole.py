"""Reads records with all their parts: by the service's own functions, or with their headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moneystate.api.failures import EXCEPTION, failed_at
from moneystate.api.input_checks import check_header_fields
from moneystate.api.json_topic import DEBEZIUM, JSON, ChangeTopic, JsonTopic, heartbeat_in, with_headers
from moneystate.api.message import Message, message_of
from moneystate.api.plan import InputPlan
from moneystate.api.reject import Reject
from moneystate.engine.avro import Malformed
from moneystate.engine.deadletter import Letter
from moneystate.engine.place import MARK, PLACE, header_of, time_of
from moneystate.engine.processor import Convert, Decoded, Rejected
from moneystate.errors import StepError

if TYPE_CHECKING:
    from moneystate.api.decoder import ServiceDecoder


class WholeReader:
    """`moneystate.engine.processor.Read` of a topic. With `functions` False it reads what `decode` and `fallback` have
    already converted."""

    def __init__(
        self, decoder: ServiceDecoder, topic: int, format: str, convert: Convert | None, functions: bool = True
    ) -> None:
        plan = decoder.plan
        self.decoder = decoder
        self.code = topic
        self.topic = plan.topics[topic]
        self.heartbeat = plan.heartbeat
        inputs = list(plan.inputs[topic].values())
        self.decoders = [i for i in inputs if i.decode is not None and functions]
        self.fallbacks = [i for i in inputs if i.fallback is not None and functions]
        self.has_format = len(self.decoders) < len(inputs)
        self.json = JsonTopic(plan, self.topic) if format == JSON else None
        self.changes = ChangeTopic(plan, self.topic) if format == DEBEZIUM else None
        self.convert = convert  # of the topic's format; None: values are in canonical form
        self.timed = any(i.timed for i in inputs)
        self.no_value = next((i for i in inputs if functions and i.is_of_headers), None)
        for planned in inputs if functions else []:
            check_header_fields(f"service {plan.name!r}: input {self.topic!r}", planned, format)

    def __call__(self, record: Letter) -> Decoded | None:
        return self._placed(record) if self.timed else self._read(record)

    def _placed(self, record: Letter) -> Decoded | None:
        """Of a timed stream: with the time of its place; of a mark, with the time of that and without key. A heartbeat
        of others says nothing there."""
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
            return None  # a tombstone: the deletion itself is the record before it
        message = message_of(self.topic, record)
        try:
            return self._taken(message)
        except Rejected:
            made = self._made(message, [(i, i.fallback) for i in self.fallbacks])
            if made is None:
                raise
        return made, *self.decoder.decode(self.code, made, message.headers)

    def _taken(self, message: Message) -> Decoded | None:
        """None: no input takes the record. Raises Rejected."""
        canonical = self._made_first(message)
        if canonical is None:
            if not self.has_format:
                return None
            if message.value is None:
                raise Rejected("null_value")
            if self.json is not None:
                canonical, codec, record = self.json.read(message.value, message.headers)
                return self.decoder.decode_read(self.code, canonical, codec, record, message.headers)
            canonical = self._by_format(message.value)
        return canonical, *self.decoder.decode(self.code, canonical, message.headers)

    def _made_first(self, message: Message) -> bytes | None:
        """What does not need the topic's format. Raises Rejected."""
        try:
            if self.decoders or self.no_value is not None:
                heartbeat = heartbeat_in(message.value, self.heartbeat)
                if heartbeat is not None:
                    return heartbeat
            if self.no_value is not None:
                codec = self.no_value.codec
                return codec.encode(codec.from_json(with_headers({}, self.no_value.from_headers, message.headers)))
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None
        return self._made(message, [(i, i.decode) for i in self.decoders])

    def _by_format(self, value: bytes) -> bytes:
        if self.changes is not None:
            return self.changes.to_canonical(value)
        return value if self.convert is None else self.convert(value)

    def _made(
        self, message: Message, functions: list[tuple[InputPlan, Callable[[Message], Any] | None]]
    ) -> bytes | None:
        """What the first function that takes the record makes of it. Raises Rejected, and StepError with the record's
        place."""
        for planned, function in functions:
            assert function is not None
            try:
                record = function(message)
                if record is None:
                    continue
                if type(record) is not planned.codec.record.cls:
                    raise StepError(f"expected {planned.codec.record.cls.__name__}, found {type(record).__name__}.")
                return planned.codec.encode(record)
            except Reject as e:
                raise Rejected(e.reason, e.detail) from None
            except (Malformed, ValueError) as e:
                raise Rejected("malformed", str(e)) from None
            except Exception as e:
                name = getattr(function, "__name__", repr(function))
                line = failed_at(message.topic, message.partition, message.offset, name, e)
                if not self.decoder.dead_letter_errors:
                    raise StepError(*line) from e
                raise Rejected(EXCEPTION, line[0]) from None
        return None
