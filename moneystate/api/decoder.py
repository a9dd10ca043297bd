"""The source's view of a service (`moneystate.engine.processor.Decoder`): time, key and validity of a record."""

from __future__ import annotations

from moneystate.api.codec import TrailingBytes
from moneystate.api.plan import InputPlan, Plan
from moneystate.api.reading import checked_time
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.engine.processor import Rejected


class ServiceDecoder:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.elsewhere = {header: its for by_header in plan.inputs.values() for header, its in by_header.items()}
        self.outputs = {output.codec.header: output.codec for output in plan.outputs.values()}

    def decode(self, topic: int, value: bytes) -> tuple[int, bytes | list[bytes] | None]:
        """Event time in ms and key, or keys; key None: nothing but its time counts. Raises Rejected."""
        header = value[:HEADER_BYTES]
        planned = self.plan.inputs[topic].get(header)
        try:
            if planned is not None:
                record, end = planned.codec.read_body(value, HEADER_BYTES)
                time = checked_time(planned.time(record))
                if end != len(value):
                    raise TrailingBytes(f"{len(value) - end} bytes after the body")
                return time, self._key(planned, record)
            if header == self.plan.heartbeat.header:
                return checked_time(self.plan.heartbeat.decode(value).processed_at), None
            raise self._elsewhere(header, value)
        except TrailingBytes as e:
            raise Rejected("trailing_bytes", str(e)) from None
        except Malformed as e:
            raise Rejected("malformed", str(e)) from None

    def _key(self, planned: InputPlan, record: object) -> bytes | list[bytes] | None:
        if planned.handler is None or planned.keys is None:
            return None
        try:
            keys = planned.keys.keys(record)
        except Malformed as e:
            raise Rejected("bad_key", str(e)) from None
        return keys[0] if len(keys) == 1 else keys

    def _elsewhere(self, header: bytes, value: bytes) -> Rejected:
        """Of a type that the input does not take. Raises Malformed, which comes first."""
        if header in self.elsewhere:
            other = self.elsewhere[header]
            checked_time(other.time(other.codec.decode(value)))
            return Rejected("wrong_topic", "the type belongs to another topic")
        if header in self.outputs:
            self.outputs[header].decode(value)
            return Rejected("no_event_time", "a type that the service writes")
        return Rejected("unknown_schema", "no known schema has this fingerprint")
