"""Deliveries as the router writes them."""

from __future__ import annotations

from typing import Any

import pytest

from moneystate.deliver.headers import attributes
from moneystate.deliver.records import DeliveryReader, NotADelivery, from_fields
from tests.deliver.made import DELIVERY, SCHEMA, delivery, stored

READER = DeliveryReader([SCHEMA])


def test_a_delivery_is_read_as_the_router_writes_it() -> None:
    for one in (
        DELIVERY,
        delivery(tenant=None, department="d", extensions={"traceid": "1"}, time_ms=1_700_000_000_123),
    ):
        assert READER.read(stored(one)) == one


def test_what_is_no_delivery_is_told_without_its_values() -> None:
    whole = stored(DELIVERY)
    for value in (
        None,
        b"",
        b"{}",
        whole[:5],
        whole[:-1],
        b"\xc3\x01" + b"12345678" + whole[10:],
        stored(delivery(owner="")),
    ):
        with pytest.raises(NotADelivery) as caught:
            READER.read(value)
        assert "order-1" not in str(caught.value)


def test_extensions_are_attributes_unless_their_names_are_not() -> None:
    made = attributes(delivery(extensions={"TraceId": "1", "a-b": "2", "id": "3", "sequence": "x"}))
    assert (made["traceid"], made["id"], made["sequence"]) == ("1", "order-1", "0007")
    assert "a-b" not in made


@pytest.mark.parametrize("field", ["deliveryId", "endpointId", "endpointRow", "sequence", "body", "time"])
def test_a_record_without_a_field_is_no_delivery(field: str) -> None:
    fields: dict[str, Any] = dict.fromkeys(
        ("deliveryId", "endpointId", "subscriptionId", "owner", "topic", "orderKey", "sequence", "eventId", "source",
         "type", "contentType"), "x",
    )  # fmt: skip
    row = {"partition": 0, "offset": 1}
    fields |= {"endpointRow": row, "subscriptionRow": row, "partition": 0, "offset": 1, "time": 5, "body": b"1"}
    assert from_fields(fields).time_ms == 5
    del fields[field]
    with pytest.raises(NotADelivery, match=field):
        from_fields(fields)
