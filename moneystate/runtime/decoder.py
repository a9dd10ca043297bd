"""The source's view of a service (`moneystate.engine.processor.Decoder`): time, key and validity of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moneystate.api.reject import Reject
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.deadletter import Letter
from moneystate.engine.items import END_OF_TIME, NO_TIME
from moneystate.engine.processor import Convert, Decoded, Read, ReadValue, Rejected
from moneystate.records.codec import Codec, TrailingBytes, check_end
from moneystate.records.reading import NO_HEADERS, Headers, checked_time, header_time
from moneystate.runtime.failures import EXCEPTION, line_of
from moneystate.runtime.json_topic import AVRO, DEBEZIUM, JSON, JsonTopic
from moneystate.runtime.plan import Plan
from moneystate.runtime.plan_parts import InputPlan
from moneystate.runtime.table_reader import TableReader, ends_load
from moneystate.runtime.whole import WholeReader


class ServiceDecoder:
    """The decoder of a service."""

    def __init__(self, plan: Plan, dead_letter_errors: bool = False) -> None:
        self.plan = plan
        self.dead_letter_errors = dead_letter_errors  # see `moneystate.runtime.processor.ServiceProcessor`
        # These have the records of all topics, to recognize a record in the wrong one.
        self.inputs_by_header = {h: planned for by_header in plan.inputs.values() for h, planned in by_header.items()}
        self.outputs_by_header = {output.codec.header: output.codec for output in plan.outputs.values()}

    def reads(self, formats: Mapping[str, str], converts: Mapping[int, Convert]) -> dict[int, Read]:
        return {
            code: self.reader(code, formats.get(self.plan.topics[code], AVRO), converts.get(code))
            for code, inputs in self.plan.inputs.items()
            if formats.get(self.plan.topics[code]) == DEBEZIUM or any(i.needs_whole_record() for i in inputs.values())
        }

    def reader(self, code: int, format: str, convert: Convert | None, functions: bool = True) -> Read:
        """Reads a topic's whole records. `functions`: as for `WholeReader`."""
        table = self.plan.table_of.get(code)
        if table is not None:
            return TableReader(self, table, format, convert)
        return WholeReader(self, code, format, convert, functions)

    def values(self, formats: Mapping[str, str]) -> dict[int, ReadValue]:
        return {
            code: JsonValues(self, code, JsonTopic(self.plan, self.plan.topics[code])).read
            for code, inputs in self.plan.inputs.items()
            if formats.get(self.plan.topics[code]) == JSON and not any(i.needs_whole_record() for i in inputs.values())
        }

    def ends_load(self, topic: int, record: Letter) -> int | None:
        """See `moneystate.engine.processor.Decoder`."""
        table = self.plan.table_of.get(topic)
        return None if table is None else ends_load(table.table.format, record)

    def needs_headers(self, topic: int) -> bool:
        return any(i.needs_headers() for i in self.plan.inputs[topic].values())

    def rejected(self, cause: Exception) -> Rejected | None:
        """See `moneystate.engine.processor.Decoder`."""
        if isinstance(cause, Reject):
            return Rejected(cause.reason, cause.detail)
        return (
            Rejected(EXCEPTION, f"{type(cause).__name__}{line_of(cause)}: {cause}") if self.dead_letter_errors else None
        )

    def decode(self, topic: int, value: bytes, headers: Headers = NO_HEADERS) -> Decoded:
        """See `moneystate.engine.processor.Decoder`. In canonical form, JSON fields have canonical text."""
        header = value[:HEADER_BYTES]
        planned = self.plan.inputs[topic].get(header)
        if planned is not None and planned.scan is not None:
            scanned = planned.scan.decoded(value)
            if scanned is not None:
                return scanned
        try:
            if planned is not None:
                record, end = planned.codec.read_body(value, HEADER_BYTES)
                time = _time(planned, record, headers)  # a wrong one takes precedence over bytes behind the body
                check_end(value, end)
                canonical = planned.codec.encode(record) if planned.codec.has_json else value
                return canonical, time, self._key(planned, record, headers)
            if header == self.plan.heartbeat.header:
                mark, end = self.plan.heartbeat.read_body(value, HEADER_BYTES)
                time = checked_time(mark.processed_at)
                check_end(value, end)
                return value, time, None
            raise self._unexpected_type(header, value)
        except Malformed as e:
            raise Rejected("trailing_bytes" if isinstance(e, TrailingBytes) else "malformed", str(e)) from None

    def decode_read(
        self, topic: int, canonical: bytes, codec: Codec, record: Any, headers: Headers = NO_HEADERS
    ) -> Decoded:
        """Works like `decode`, for a value whose record has already been decoded. Raises Rejected."""
        planned = self.plan.inputs[topic].get(codec.header)
        if planned is None or not planned.reads_only_fields:
            return self.decode(topic, canonical, headers)
        try:
            time = _time(planned, record, headers)
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None
        return canonical, time, self._key(planned, record, headers)

    def _key(self, planned: InputPlan, record: object, headers: Headers) -> bytes | list[bytes] | None:
        if planned.handler is None or planned.keys is None:
            return None
        try:
            keys = planned.keys.keys(record, headers)
        except Malformed as e:
            raise Rejected("bad_key", str(e)) from None
        return keys[0] if len(keys) == 1 else keys

    def _unexpected_type(self, header: bytes, value: bytes) -> Rejected:
        """Returns why a record of this type is not accepted in this topic. Raises Malformed if the value itself is
        invalid: this reason takes precedence."""
        if header in self.inputs_by_header:
            other = self.inputs_by_header[header]
            record, end = other.codec.read_body(value, HEADER_BYTES)
            time = _request_time if other.lookup is not None else checked_time
            time(other.time(record))
            check_end(value, end)
            if other.lookup is not None:
                return Rejected("no_event_time", "a lookup's reply")
            return Rejected("wrong_topic", "the type belongs to another topic")
        if header in self.outputs_by_header:
            self.outputs_by_header[header].decode(value)
            return Rejected("no_event_time", "a type that the service writes")
        return Rejected("unknown_schema", "no known schema has this fingerprint")


class JsonValues:
    """Reads the values of a JSON topic in one pass."""

    def __init__(self, decoder: ServiceDecoder, code: int, topic: JsonTopic) -> None:
        self.decoder = decoder
        self.code = code
        self.topic = topic

    def read(self, value: bytes) -> Decoded:
        """Raises Rejected."""
        canonical, codec, record = self.topic.read(value)
        return self.decoder.decode_read(self.code, canonical, codec, record)


def _request_time(time_ms: int) -> int:
    """The time of a lookup's request, which a timer may have made beyond the last event time. Raises Malformed."""
    if not NO_TIME < time_ms < END_OF_TIME:
        raise Malformed(f"no request has the time {time_ms}")
    return time_ms


def _time(planned: InputPlan, record: Any, headers: Headers) -> int:
    """Raises Malformed."""
    if planned.lookup is not None:
        return _request_time(planned.time(record))
    if planned.time_header:
        return header_time(headers, planned.time_header)
    return checked_time(planned.time(record))
