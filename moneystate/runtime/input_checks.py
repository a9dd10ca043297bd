"""Checks inputs whose records have fields in Kafka headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moneystate.api.handles import Input
from moneystate.errors import ServiceError
from moneystate.records.shapes import Array, Maybe, Record, Shape, Table

if TYPE_CHECKING:
    from moneystate.runtime.plan_parts import InputPlan


def check_input(where: str, planned: InputPlan, format: str, inputs_of_topic: Sequence[Input[Any]]) -> None:
    """Raises ServiceError."""
    check_header_fields(where, planned, format)
    if planned.is_all_headers and len(inputs_of_topic) > 1:
        raise ServiceError(
            f"{where}: all of its fields are in headers, so it would also read the other inputs' records.",
            "use decode= to tell the types apart.",
        )
    by_format = [i for i in inputs_of_topic if i.decode is None and i.fallback is None]
    if format == "debezium" and len(by_format) > 1:
        raise ServiceError(
            f"{where}: expected one type of records in a topic of change events, found several.",
            "declare one input for it.",
        )
    for f in planned.codec.record.fields:
        inner = next((name for record in _records(f.shape) for name in _header_fields(record)), None)
        if inner is not None:
            raise ServiceError(
                f"{where}: {inner} is in a header, but belongs to a nested record.",
                "move the field to the record itself.",
            )


def check_header_fields(where: str, planned: InputPlan, format: str) -> None:
    """Raises ServiceError for header fields in a format other than JSON: an Avro value has all fields of its schema."""
    if planned.from_headers and not planned.is_all_headers and planned.decode is None and format != "json":
        raise ServiceError(
            f"{where}: {planned.from_headers[0].name} is in a header, but a value in {format} has all fields.",
            'use format="json", or build the record with decode=.',
        )


def _header_fields(record: Record) -> list[str]:
    own = [f"{record.cls.__name__}.{f.name}" for f in record.fields if f.header]
    return own + [name for f in record.fields for inner in _records(f.shape) for name in _header_fields(inner)]


def _records(shape: Shape) -> list[Record]:
    if isinstance(shape, Record):
        return [shape]
    return _records(shape.inner) if isinstance(shape, (Maybe, Array, Table)) else []
