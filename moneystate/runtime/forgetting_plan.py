"""Makes and reads the events that ask to forget a key (`moneystate.api.forgetting`)."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from moneystate.api.forgetting import Forgetting, Forgotten
from moneystate.engine.avro import HEADER_BYTES
from moneystate.errors import ServiceError, StepError
from moneystate.records.reading import KeyReader
from moneystate.records.shapes import MILLIS_KIND, Plain
from moneystate.runtime.plan_parts import InputPlan


class ForgettingPlan:
    """Makes the events of requests, and reads them."""

    def __init__(self, declared: Forgetting, planned: InputPlan, where: str) -> None:
        """Raises ServiceError for an input whose record cannot be made from a request."""
        self.declared = declared
        self.input = planned
        self.where = f"{where}: forgetting({declared.input!r})"
        self.cls = planned.codec.record.cls
        self.key = self._field("key", declared.input.key, ("string",))
        self.time = self._field("time", declared.input.time, (MILLIS_KIND,))
        self.id = self._field("id", declared.id, ("string",))
        self.by = self._field("by", declared.by, ("string",))
        made = {self.key, self.time, self.id, self.by}
        missing = [f.name for f in fields(self.cls) if f.name not in made and f.default is f.default_factory is MISSING]
        if missing:
            raise ServiceError(
                f"{self.where}: {self.cls.__name__}.{missing[0]} has no value in a request.", "give it a default."
            )
        if planned.handler is None or planned.decode is not None or planned.format not in ("avro", "json"):
            raise ServiceError(
                f"{self.where}: expected an input in avro or json with a function that calls ctx.forget().",
                "declare such an input.",
            )
        self.keys = KeyReader(planned.codec.record, self.key, self.where)

    def _field(self, argument: str, name: Any, kinds: tuple[str, ...]) -> str:
        field = self.input.codec.record.field(name) if isinstance(name, str) else None
        if field is None or not isinstance(field.shape, Plain) or field.shape.kind not in kinds:
            wanted = "ms.Millis" if kinds == (MILLIS_KIND,) else "str"
            raise ServiceError(
                f"{self.where}: expected {argument}={name!r} to be a field of type {wanted}.", "name such a field."
            )
        return field.name

    def event(self, key: str, time_ms: int, id: str, by: str) -> tuple[bytes, bytes]:
        """The key and the value of a request's record, in the format that the input declares. Raises StepError if the
        service's record refuses the values."""
        try:
            record = self.cls(**{self.key: key, self.time: time_ms, self.id: id, self.by: by})
        except ValueError as e:
            raise StepError(f"{self.where}: {self.cls.__name__} refused a request: {e}.", "correct the request.") from e
        value = self.input.codec.encode(record)
        codec = self.input.codec
        return self.keys.keys(record)[0], codec.transcode(value, HEADER_BYTES) if self.input.format == "json" else value

    def proof_of(self, value: bytes, at: int, topic: str, partition: int, offset: int) -> Forgotten | None:
        """`value`: the event of a step, in canonical form. None: it is not a request."""
        if value[:HEADER_BYTES] != self.input.codec.header:
            return None
        record, _ = self.input.codec.read_own_body(value, HEADER_BYTES)
        return Forgotten(at, getattr(record, self.id), getattr(record, self.by), topic, partition, offset)
