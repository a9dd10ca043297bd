"""Checks that a JSON topic can tell its records apart (`moneystate.records.type_names`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moneystate.api.handles import Input
from moneystate.errors import ServiceError
from moneystate.records.shapes import Maybe, Plain, Record, Shape, Symbols
from moneystate.records.type_names import HEARTBEAT, HEARTBEAT_MEMBERS, TYPE

if TYPE_CHECKING:
    from moneystate.runtime.plan import Plan


def read_by_format(inputs: Sequence[Input[Any]]) -> list[Input[Any]]:
    """The inputs of a topic whose records the topic's format decodes. Functions of the service make the others."""
    return list(inputs) if len(inputs) == 1 else [i for i in inputs if i.decode is None and i.fallback is None]


def check_json_topic(plan: Plan, topic: str) -> None:
    """Raises ServiceError if the topic's records in JSON could be taken for each other, or for heartbeats."""
    service = plan.service
    read = read_by_format([i for i in service.inputs if i.topic == topic])
    written = [o for o in service.outputs if o.topic == topic]
    inputs = [plan.codec(i.record, repr(i)).record for i in read]
    outputs = [plan.codec(o.record, repr(o)).record for o in written]
    where = f"service {service.name!r}: topic {topic!r}"
    _check_names(where, {record.name: record for record in [*inputs, *outputs]}.values())
    for records in (inputs, outputs):
        if len(records) > 1:
            _check_type_fields(where, records)
    for record in inputs:
        required = {f.label for f in record.fields if f.default is None and not f.header}
        if required <= HEARTBEAT_MEMBERS:
            _check_heartbeat(where, record)
    for record in outputs:
        if {f.label for f in record.fields} | {TYPE} == HEARTBEAT_MEMBERS:
            _check_heartbeat(where, record)


def _check_names(where: str, records: Iterable[Record]) -> None:
    by_name: dict[str, Record] = {}
    for record in records:
        other = by_name.setdefault(record.type_name, record)
        if other is not record:
            raise ServiceError(
                f"{where}: {other.name} and {record.name} are both {record.type_name!r} in JSON.",
                "give one another name with @ms.named(..., wire=NAME), or a topic of its own.",
            )


def _check_type_fields(where: str, records: Iterable[Record]) -> None:
    """A record's own field `type` would replace the name of its type."""
    for record in records:
        field = next((f for f in record.fields if f.label == TYPE), None)
        if field is not None and not _is_only(field.shape, record.type_name):
            raise ServiceError(
                f"{where}: {record.cls.__name__}.{field.name} is {TYPE!r} in JSON, where a topic of several types has "
                "the name of the type.",
                f"rename the field, declare it as Literal[{record.type_name!r}], or use a topic of its own.",
            )


def _is_only(shape: Shape, symbol: str) -> bool:
    return isinstance(shape, Symbols) and shape.symbols == (symbol,)


def _check_heartbeat(where: str, record: Record) -> None:
    """`record`: one that may consist of a heartbeat's members."""
    field = next((f for f in record.fields if f.label == TYPE), None)
    if record.type_name == HEARTBEAT if field is None else _takes(field.shape, HEARTBEAT):
        raise ServiceError(
            f"{where}: a record {record.cls.__name__} can have exactly the members of the platform's heartbeat, "
            "and would be taken for one.",
            "give the type another name with @ms.named(..., wire=NAME), or another required field.",
        )


def _takes(shape: Shape, text: str) -> bool:
    """Whether a text is a value of the shape."""
    inner = shape.inner if isinstance(shape, Maybe) else shape
    return text in inner.symbols if isinstance(inner, Symbols) else inner in (Plain("string"), Plain("json"))
