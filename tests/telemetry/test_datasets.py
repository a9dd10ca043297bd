"""What OpenLineage gets to know about topics."""

from __future__ import annotations

import pytest

from examples.orders import orders
from moneystate.job.lineage_events import datasets_of
from moneystate.job.run_options import RunOptions
from moneystate.runtime.job import service_spec
from moneystate.telemetry.datasets import AvroSchema, Field, JobDatasets, Topic
from tests.enrichment.jobs import Rules, enrichment_job

SECRET = "s3cret"


def options(brokers: str = "a:9092") -> RunOptions:
    config = {"sasl.password": SECRET, "sasl.username": SECRET}
    return RunOptions(brokers, "/checkpoint", "shop.", kafka_config=config, spark_config={"spark.secret": SECRET})


@pytest.mark.parametrize("brokers", ["a:9092", "a:9092,b:9093", "SASL_SSL://a:9092, b:9092"])
def test_the_namespace_is_the_first_broker(brokers: str) -> None:
    assert JobDatasets("job", brokers, [], []).namespace == "kafka://a:9092"


def test_types_are_those_of_avro() -> None:
    inner = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int", "doc": "how many"}]}
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "lines", "type": {"type": "array", "items": inner}},
            {"name": "paid", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
            {"name": "either", "type": ["null", "string", "Line"]},
            {"name": "tags", "type": {"type": "map", "values": "string"}, "doc": "free"},
        ],
    }
    assert Topic("orders", [schema]).fields() == [
        Field("lines", "array<record>", None, [Field("n", "int", "how many")]),
        Field("paid", "timestamp-millis?"),
        Field("either", "union?", None, [Field("string", "string"), Field("Line", "Line")]),
        Field("tags", "map<string>", "free"),
    ]


def test_a_topic_of_several_types_has_a_field_for_each() -> None:
    both: list[AvroSchema] = [{"type": "record", "name": name, "fields": []} for name in ("A", "B")]
    assert Topic("t", both).fields() == [Field("A", "record", None, []), Field("B", "record", None, [])]
    assert Topic("t").fields() == []


def test_a_plain_service_declares_its_records() -> None:
    datasets = datasets_of(service_spec(f"{orders.__name__}:service").job({}), options())
    assert datasets.job == "shop.orders"
    assert [t.name for t in datasets.inputs] == ["shop.orders", "shop.payments"]
    assert [t.name for t in datasets.outputs] == ["shop.orders-closed", "shop.orders-dead-letters", "shop.orders-state"]
    assert [f.name for f in datasets.inputs[1].fields()] == ["paymentId", "orderId", "cents", "takenAt"]
    assert [len(t.schemas) for t in datasets.outputs] == [1, 0, 0]


def test_the_enrichment_declares_its_types_without_heartbeats() -> None:
    datasets = datasets_of(enrichment_job(Rules(lookup=True)), options())
    types = {t.name: [f.name for f in t.fields()] for t in [*datasets.inputs, *datasets.outputs]}
    assert types["shop.wallet-events"] == ["PaymentEvent", "TransactionEvent", "KindOfWalletEvent"]
    assert types["shop.session-lookup-results"][0] == "moneyId"  # the fields of its only type
    assert types["shop.money-enriched-events"] == [
        "money", "userInfo", "sessionInfo", "firstOccurrence", "sessionStatus"
    ]  # fmt: skip
    assert types["shop.session-lookup-requests"][-1] == "reason"
    assert types["shop.money-enrichment-state"] == []


def test_settings_are_not_told() -> None:
    assert SECRET not in repr(datasets_of(enrichment_job(Rules()), options()))
