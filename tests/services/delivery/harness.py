"""The router on a bench, with the logs of the workload."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from moneystate.testing import CRASH, Bench
from services.delivery.config import Config, Events
from services.delivery.records import Delivery
from services.delivery.service import DeliveryService
from tests.services.delivery.reference import Delivered, Row, Sent
from tests.services.delivery.workload import DEDUP_MS, ENDPOINTS, PLAIN, TOPICS, Log, headers_of, value_of

PARTITIONS = 2
CONFIG = Config(
    cloud_events=TOPICS[:-1],
    events=(Events(PLAIN, "meta.id", "header:origin", "meta.type", "meta.tenant", "meta.department"),),
    duplicate_retention_ms=DEDUP_MS,
)


def placed(log: Log) -> Log:
    """The records at the places that a bench gives them."""
    ends: Counter[tuple[str, int]] = Counter()
    made = Log()
    for record in log.records:
        topic = record.topic if isinstance(record, Sent) else table_of(record)
        partition = sum(record.key.encode()) % PARTITIONS
        made.records.append(replace(record, partition=partition, offset=ends[topic, partition]))
        ends[topic, partition] += 1
    return made


def table_of(row: Row) -> str:
    return "endpoints" if row.key in ENDPOINTS else "subscriptions"


def bench_of(log: Log, seed: int, config: Config = CONFIG) -> tuple[DeliveryService, Bench]:
    made = DeliveryService(config)
    bench = Bench(made.service, seed=seed, partitions=PARTITIONS)
    chance = random.Random(seed)
    for record in log.records:
        if isinstance(record, Sent):
            key, headers = record.kafka_key or None, headers_of(record)
            bench.send_raw(record.topic, record.body, key=key, headers=headers, timestamp_ms=record.time)
        elif record.key in ENDPOINTS:
            bench.rows(made.endpoints, {record.key: value_of(record)}, arrival_ms=record.time)
        else:
            bench.rows(made.subscriptions, {record.key: value_of(record)}, arrival_ms=record.time)
        if chance.random() < 0.02:
            bench.send(CRASH)
    return made, bench


def delivered(d: Delivery) -> Delivered:
    return Delivered(
        d.delivery_id, d.endpoint_id, d.subscription_id, d.owner, (d.endpoint_row.partition, d.endpoint_row.offset),
        (d.subscription_row.partition, d.subscription_row.offset), d.topic, d.partition, d.offset, d.time, d.order_key,
        d.event_id, d.source, d.type, d.tenant, d.department, d.body,
    )  # fmt: skip
