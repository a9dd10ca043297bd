"""Translates between callers' names and a service's declarations. Raises Failure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from moneystate.api.handles import AnyIndex
from moneystate.errors import ServiceError
from moneystate.records import index_order
from moneystate.records.avro_types import fingerprint, parse
from moneystate.records.index_order import Span
from moneystate.records.schema import schema_of
from moneystate.records.shapes import Record
from moneystate.runtime.cells import RecordKind
from moneystate.runtime.plan import Plan
from moneystate.runtime.query_plan import QueryPlan
from moneystate.serving import requests
from moneystate.serving.callers import READ_PERSONAL
from moneystate.serving.calls import Call
from moneystate.serving.failures import malformed
from moneystate.state.v1 import state_pb2 as s

MAX_KEY_BYTES: Final = 65_535


class Contract:
    """The service's contract for queries."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan  # with the rules that the service is declared with
        self.queries = plan.queries
        # whether callers need the scope for personal fields
        self.personal = {name: name in plan.personal_indices for name in plan.service.indices}
        self.personal_queries = plan.personal_queries

    def kind(self, plan: Plan, name: str, field: str) -> RecordKind:
        kind = plan.kinds.get(requests.name(name, field))
        if kind is None:
            raise malformed(field, f"expected {_one_of(plan.kinds)}, found {name}")
        return kind

    def is_map(self, kind: RecordKind) -> bool:
        return kind.default_body is None

    def a_map(self, plan: Plan, name: str, field: str) -> RecordKind:
        kind = self.kind(plan, name, field)
        if not self.is_map(kind):
            raise malformed(field, f"expected a map, but {name} is a value")
        return kind

    def named(self, plan: Plan, name: s.RecordName, field: str) -> tuple[RecordKind, bytes, bytes]:
        """The kind, key and id that `name` names."""
        kind = self.kind(plan, name.state, f"{field}.state")
        if name.id and not self.is_map(kind):
            raise malformed(f"{field}.id", f"{kind.name}: expected no id, as it is a value")
        return kind, key_of(name.key, f"{field}.key"), key_of(name.id, f"{field}.id")

    def index(self, plan: Plan, name: str, call: Call) -> AnyIndex[Any, Any]:
        """Raises Failure SCOPE_MISSING for an index that reveals personal fields."""
        indices = plan.service.indices
        index = indices.get(requests.name(name, "index"))
        if index is None:
            raise malformed("index", f"expected {_one_of(indices)}, found {name}")
        if self.personal[name]:
            call.caller.require(READ_PERSONAL)
        return index

    def query(self, name: str, call: Call) -> QueryPlan:
        """Raises Failure SCOPE_MISSING for a query that may reveal personal fields."""
        query = self.queries.get(requests.name(name, "query"))
        if query is None:
            raise malformed("query", f"expected {_one_of(self.queries)}, found {name}")
        if name in self.personal_queries:
            call.caller.require(READ_PERSONAL)
        return query

    def schema(self) -> s.GetSchemaResponse:
        states, service = self.plan.kinds, self.plan.service
        return s.GetSchemaResponse(
            service=self.plan.name,
            states=[
                s.StateSchema(name=n, is_map=self.is_map(k), ttl_ms=k.ttl_ms, record=_schema(k.codec.record))
                for n, k in states.items()
            ],
            indices=[
                s.IndexSchema(name=index.name, state=index.of.name, personal=self.personal[index.name])
                for index in service.indices.values()
            ],
            queries=[
                s.QuerySchema(
                    name=q.name, description=q.description, arguments=_schema(q.arguments.record),
                    result=_schema(q.result.record), personal=q.name in self.personal_queries,
                )
                for q in self.queries.values()
            ],
        )  # fmt: skip


def key_of(text: str, field: str) -> bytes:
    """A key or an id. It may be empty."""
    key = text.encode()
    if len(key) > MAX_KEY_BYTES:
        raise malformed(field, f"expected at most {MAX_KEY_BYTES:,} bytes, found {len(key):,}")
    return key


def span(request: s.ListRequest, index: AnyIndex[Any, Any]) -> Span:
    """The range of a listing by an index."""
    if request.HasField("equals") and request.HasField("range"):
        raise malformed("equals", "expected equals or range, found both")
    try:
        if request.HasField("equals"):
            return index_order.span_of(_value(request.equals, "equals"), repr(index))
        between = request.range
        low = _value(between.low, "range.low") if between.HasField("low") else None
        high = _value(between.high, "range.high") if between.HasField("high") else None
        return index_order.span_between(low, high, repr(index))
    except ServiceError as e:
        raise malformed("equals" if request.HasField("equals") else "range", str(e)) from None


def _value(value: s.IndexValue, field: str) -> tuple[Any, ...]:
    parts = tuple(part.number if part.WhichOneof("part") == "number" else part.text for part in value.parts)
    if not parts or any(part.WhichOneof("part") is None for part in value.parts):
        raise malformed(field, "expected parts, each a text or a number")
    return parts


def _schema(record: Record) -> s.Schema:
    schema = schema_of(record)
    return s.Schema(fingerprint=fingerprint(parse(schema))[::-1].hex(), avro=json.dumps(schema))


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}" if names else "nothing, as the service declares none"
