"""Forgetting a key on request: the event that asks for it, and the proof that it was done."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple

from moneystate.api.handles import Input, Value
from moneystate.api.plan_parts import InputPlan
from moneystate.api.reading import KeyReader
from moneystate.api.shapes import MILLIS_KIND, Plain
from moneystate.api.types import Millis, named
from moneystate.engine.avro import HEADER_BYTES
from moneystate.errors import ServiceError, StepError

FORGOTTEN = "forgotten"  # the state


@named("moneystate.Forgotten")
@dataclass
class Forgotten:
    """State: the proof that a key was forgotten, by the last request of which it was."""

    at: Millis = 0  # the order time
    request_id: str = ""
    requested_by: str = ""
    topic: str = ""  # the place of the request in the log
    partition: int = 0
    offset: int = 0


class Forgetting(NamedTuple):
    """Holds what a service declares."""

    input: Input[Any]
    id: str  # the field with the id of the request
    by: str  # the field that says who asks
    proof: Value[Forgotten]


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
