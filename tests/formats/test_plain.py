"""The formats of a service's topics: JSON and Confluent to its Avro records and back, all released versions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.orders import orders
from moneystate.engine.processor import Rejected
from moneystate.kafka.convert import converters, writers
from moneystate.records.codec import Codec
from moneystate.records.platform_records import HEARTBEAT_RECORD, Heartbeat
from moneystate.runtime.job import job_spec
from moneystate.runtime.plans import plan_of
from moneystate.schemas.services import release_service
from tests.formats.registry_server import RegistryServer

ORDERS = "examples.orders.orders:service"
JOB = job_spec(ORDERS, {})
ORDER = orders.OrderPlaced("a", "eve", 7, 1_700_000_000_123)
AS_JSON = {"type": "OrderPlaced", "orderId": "a", "customer": "eve", "cents": 7, "placedAt": "2023-11-14T22:13:20.123Z"}


def codec(name: str) -> Codec:
    plan = plan_of(ORDERS)
    every = [i.codec for its in plan.inputs.values() for i in its.values()] + [o.codec for o in plan.outputs.values()]
    return next(one for one in every if one.record.short == name)


def from_json(document: Any) -> bytes:
    code = next(t.code for t in JOB.inputs if t.name == "orders")
    convert = converters({"orders": "json"}, JOB.inputs, None, service=ORDERS)
    assert list(convert) == [code]
    return convert[code](document if isinstance(document, bytes) else json.dumps(document).encode())


def test_json_is_the_record_with_or_without_its_type() -> None:
    wanted = codec("OrderPlaced").encode(ORDER)
    without = {name: value for name, value in AS_JSON.items() if name != "type"}
    assert from_json(AS_JSON) == from_json(without) == from_json({**without, "placedAt": ORDER.placed_at}) == wanted


def test_a_heartbeat_in_json_is_one() -> None:
    wanted = Codec(HEARTBEAT_RECORD).encode(Heartbeat(5))
    assert from_json({"type": "Heartbeat", "processedAt": 5}) == wanted


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"{", "malformed"),
        (b"\xff", "malformed"),
        (b"[]", "malformed"),
        ({"type": 5}, "malformed"),
        ({**AS_JSON, "cents": "x"}, "malformed"),
        ({**AS_JSON, "type": "Other"}, "unknown_schema"),
    ],
)
def test_what_is_no_record_is_a_dead_letter(document: Any, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        from_json(document)
    assert rejected.value.reason == reason


def test_outputs_are_written_as_json_and_in_confluents_format() -> None:
    closed = codec("Closed").encode(orders.Closed("a", "PAID", 0))
    (to_json,) = writers({"orders-closed": "json"}, JOB.streams, "", None, ORDERS).values()
    assert json.loads(to_json(closed)) == {"type": "Closed", "orderId": "a", "status": "PAID", "missing": 0}
    with RegistryServer() as registry:
        (framed,) = writers({"orders-closed": "confluent"}, JOB.streams, "", registry.url, ORDERS).values()
        assert framed(closed)[5:] == closed[10:]


def test_records_of_a_released_version_are_read_as_the_current_one(tmp_path: Path) -> None:
    source = Path(orders.__file__).read_text()
    file = tmp_path / "versioned_orders.py"
    service = "versioned_orders:service"
    sys.path.insert(0, str(tmp_path))
    try:
        file.write_text(source)
        release_service(service)
        earlier = next(o.codec for i in plan_of(service).inputs.values() for o in i.values() if o.topic == "orders")
        value = earlier.encode(earlier.record.cls("a", "eve", 7, 5))
        forget("versioned_orders")
        file.write_text(
            source.replace("    placed_at: ms.Millis\n", "    placed_at: ms.Millis\n    note: str = 'none'\n")
        )
        assert "events/OrderPlaced/v2" in release_service(service)
        job = job_spec(service, {})
        current = next(o.codec for i in plan_of(service).inputs.values() for o in i.values() if o.topic == "orders")
        code = next(t.code for t in job.inputs if t.name == "orders")
        read = current.decode(converters({}, job.inputs, None, service=service)[code](value))
        assert (read.order_id, read.note) == ("a", "none")
        assert {earlier.header[2:].hex(), current.header[2:].hex()} <= set(job.rules["known_schemas"])
    finally:
        sys.path.remove(str(tmp_path))
        forget("versioned_orders")


def forget(module: str) -> None:
    """As another process would begin."""
    sys.modules.pop(module, None)
    plan_of.cache_clear()
