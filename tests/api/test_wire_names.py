"""Names of fields and types in JSON and Avro that a service chooses: `ms.Wire`, `ms.named(wire=)`, `Service(wire=)`."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import fastavro
import pytest

import moneystate as ms
from moneystate.engine.avro import HEADER_BYTES
from moneystate.errors import ServiceError
from moneystate.records.codec import Codec
from moneystate.records.schema import schema_of
from moneystate.records.shapes import Shapes, snake
from moneystate.runtime.json_topic import JsonTopic
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench


@dataclass(frozen=True)
class Line:
    article_no: Annotated[str, ms.Wire("sku")]
    unit_price: int = 0


@ms.named("shop.OrderPlaced", wire="order.placed")
@dataclass(frozen=True)
class Placed:
    order_id: Annotated[str, ms.Wire("order_id")]
    placed_at: Annotated[ms.Millis, ms.Wire("@timestamp")]
    lines: list[Line]
    state: Annotated[Literal["NEW", "OLD"] | None, ms.Wire("status", was=("st",))] = None


@ms.named(wire="order.cancelled")
@dataclass(frozen=True)
class Cancelled:
    order_id: str
    placed_at: ms.Millis


@dataclass(frozen=True)
class Seen:
    order_id: str
    total_price: int


def shop(style: str = "camel", format: str = "json", more: tuple[type[Any], ...] = (Cancelled,)) -> Any:
    made: Any = ms.Service("shop", wire=style)
    inputs = [made.input("orders", cls, key="order_id", time="placed_at", format=format) for cls in (Placed, *more)]
    seen = made.output("seen", Seen, key="order_id", format=format)
    source = inputs[0]
    for other in inputs[1:]:
        source = source | other
    made.on(source)(lambda ctx, e: ctx.emit(seen, Seen(ctx.key, len(getattr(e, "lines", [])))))
    made.seen = seen
    return made


def seen_of(bench: Bench) -> Any:
    service: Any = bench.plan.service
    return service.seen


def codec(cls: type[Any], style: str = "camel") -> Codec:
    return Codec(Shapes("shop", style=style).record(cls, "a test"))


ORDER = Placed("a", 5, [Line("x", 7)], "OLD")
AS_JSON = {
    "type": "order.placed",
    "order_id": "a",
    "@timestamp": "1970-01-01T00:00:00.005Z",
    "lines": [{"sku": "x", "unitPrice": 7}],
    "status": "OLD",
}


def test_a_record_is_read_and_written_under_its_names_in_json() -> None:
    bench = Bench(shop(), bound_ms=0)
    bench.send_raw("orders", json.dumps(AS_JSON))
    bench.send_raw("orders", json.dumps({"type": "order.cancelled", "orderId": "a", "placedAt": 6}))
    assert (bench.out(seen_of(bench)), bench.dead_letters()) == ([Seen("a", 1), Seen("a", 0)], [])
    own = codec(Placed)
    assert json.loads(own.to_json(ORDER)) == AS_JSON
    assert json.loads(own.transcode(own.encode(ORDER), HEADER_BYTES)) == AS_JSON


def test_avro_has_the_names_that_it_allows() -> None:
    schema: Any = schema_of(codec(Placed).record)
    assert [f["name"] for f in schema["fields"]] == ["order_id", "placedAt", "lines", "status"]
    assert (schema["name"], schema["fields"][2]["type"]["items"]["fields"][0]["name"]) == ("OrderPlaced", "sku")
    body = codec(Placed).encode(ORDER)[HEADER_BYTES:]
    read: Any = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(schema), None)
    assert (read["order_id"], read["lines"][0]["sku"], read["status"]) == ("a", "x", "OLD")


def test_a_service_in_snake_case_writes_all_its_fields_so() -> None:
    bench = Bench(shop("snake"), bound_ms=0)
    bench.send_raw("orders", '{"type":"order.cancelled","order_id":"a","placed_at":6}')
    (seen,) = bench.out(seen_of(bench))
    plan = bench.plan
    text = JsonTopic(plan, "seen").from_canonical(plan.outputs[seen_of(bench)].codec.encode(seen))
    assert json.loads(text) == {"type": "Seen", "order_id": "a", "total_price": 0}
    schema: Any = schema_of(codec(Seen, "snake").record)
    assert [(f["name"], f.get("aliases")) for f in schema["fields"]] == [
        ("order_id", ["orderId"]), ("total_price", ["totalPrice"]),
    ]  # fmt: skip
    assert [snake(name) for name in ("orderId", "order_id", "ts2Ms", "id")] == ["order_id", "order_id", "ts2_ms", "id"]


@pytest.mark.parametrize(
    ("style", "document"),
    [
        ("camel", {"order_id": "a", "placed_at": 6}),  # as the fields are called in Python
        ("snake", {"orderId": "a", "placedAt": 6}),  # the default, which the service had before
    ],
)
def test_a_field_that_is_absent_is_read_under_its_other_names(style: str, document: dict[str, Any]) -> None:
    bench = Bench(shop(style, more=()), bound_ms=0)
    assert codec(Cancelled, style).from_json_text(json.dumps(document)) == Cancelled("a", 6)
    assert bench.dead_letters() == []
    earlier = {**AS_JSON, "st": AS_JSON["status"]}
    del earlier["status"]
    assert codec(Placed).from_json_text(json.dumps(earlier)) == ORDER


def test_the_name_goes_before_other_names() -> None:
    text = '{"orderId":"named","order_id":"other","placedAt":6,"placed_at":7}'
    assert codec(Cancelled).from_json_text(text) == Cancelled("named", 6)


@pytest.mark.parametrize("name", ["orderPlaced", "order-placed", "ORDER_PLACED", "Order.Placed"])
def test_a_type_is_recognized_in_another_spelling(name: str) -> None:
    bench = Bench(shop(), bound_ms=0)
    bench.send_raw("orders", json.dumps({**AS_JSON, "type": name}))
    bench.send_raw("orders", json.dumps({**AS_JSON, "type": "order.placed.v2"}))
    assert (bench.out(seen_of(bench)), bench.dead_letters()) == ([Seen("a", 1)], ["unknown_schema"])


@ms.named(wire="order.placed")
@dataclass(frozen=True)
class Clash:
    order_id: str
    placed_at: ms.Millis


@dataclass(frozen=True)
class TwoFields:
    order_id: str
    other: Annotated[str, ms.Wire("orderId")]


@dataclass(frozen=True)
class TwoInJson:
    first: Annotated[str, ms.Wire("@id")]
    second: Annotated[str, ms.Wire("@id")]


@dataclass(frozen=True)
class Swapped:
    """Each has the name that the other would have."""

    a_b: Annotated[str, ms.Wire("cD")]
    c_d: Annotated[str, ms.Wire("aB")]


@pytest.mark.parametrize(
    ("cls", "message"),
    [(TwoFields, "order_id and other are both orderId"), (TwoInJson, "first and second are both @id")],
)
def test_two_fields_of_one_name_are_refused(cls: type[Any], message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        codec(cls)


def test_two_types_of_one_name_are_refused() -> None:
    with pytest.raises(ServiceError, match=r"are both 'order\.placed' in JSON"):
        Plan(shop(more=(Clash,)))


def test_a_further_name_never_takes_another_fields() -> None:
    assert codec(Swapped).from_json_text('{"cD":"1","aB":"2"}') == Swapped("1", "2")
    schema: Any = schema_of(codec(Swapped).record)
    assert [f.get("aliases") for f in schema["fields"]] == [None, None]


@dataclass(frozen=True)
class Row:
    order_id: Annotated[str, ms.Wire("Order ID")]
    total_price: int


@dataclass(frozen=True)
class Change:
    after: Row | None
    ts_ms: ms.Millis
    before: Row | None = None


def test_a_column_of_a_database_can_have_any_name() -> None:
    made: Any = ms.Service("rows")
    rows = made.input("rows", Change, key="after.order_id", time="ts_ms", format="debezium")
    seen = made.output("seen", Seen, key="order_id")
    made.on(rows)(lambda ctx, e: ctx.emit(seen, Seen(ctx.key, e.after.total_price)))
    bench = Bench(made)
    bench.send_raw("rows", '{"op":"c","ts_ms":5,"after":{"Order ID":"a","total_price":7}}')
    assert (bench.out(seen), bench.dead_letters()) == ([Seen("a", 7)], [])


def test_a_style_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ServiceError, match="wire='kebab'"):
        ms.Service("shop", wire="kebab")
