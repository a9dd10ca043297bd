"""Checks an input's declarations of headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moneystate.api.handles import Input
from moneystate.api.shapes import Array, Maybe, Record, Shape, Table
from moneystate.errors import ServiceError

if TYPE_CHECKING:
    from moneystate.api.plan import InputPlan


def check_input(where: str, planned: InputPlan, format: str, of_topic: Sequence[Input[Any]]) -> None:
    """Raises ServiceError."""
    check_header_fields(where, planned, format)
    if planned.is_of_headers and len(of_topic) > 1:
        raise ServiceError(
            f"{where}: all of its fields are in headers, so it would take the records of other inputs of the topic.",
            "tell them apart by decode=.",
        )
    of_format = [i for i in of_topic if i.decode is None and i.fallback is None]
    if format == "debezium" and len(of_format) > 1:
        raise ServiceError(f"{where}: a topic of change events has records of one type.", "declare one input for it.")
    for f in planned.codec.record.fields:
        inner = next((name for record in _records(f.shape) for name in _of_headers(record)), None)
        if inner is not None:
            raise ServiceError(f"{where}: {inner} is in a header, but no field of the record itself.", "move it there.")


def check_header_fields(where: str, planned: InputPlan, format: str) -> None:
    """An Avro value has all fields of its schema. Raises ServiceError."""
    if planned.from_headers and not planned.is_of_headers and planned.decode is None and format != "json":
        raise ServiceError(
            f"{where}: {planned.from_headers[0].name} is in a header, but a value in {format} has all fields.",
            'use format="json", or make the record by decode=.',
        )


def _of_headers(record: Record) -> list[str]:
    mine = [f"{record.cls.__name__}.{f.name}" for f in record.fields if f.header]
    return mine + [name for f in record.fields for inner in _records(f.shape) for name in _of_headers(inner)]


def _records(shape: Shape) -> list[Record]:
    if isinstance(shape, Record):
        return [shape]
    return _records(shape.of) if isinstance(shape, (Maybe, Array, Table)) else []
