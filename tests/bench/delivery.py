"""Throughput of the router of event delivery over a backlog, by turns with and without `why`: events with CloudEvents
headers, of many tenants, and subscriptions to tenants, departments and types."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.records.codec import Codec
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded
from tests.bench.backlog import PARTITIONS, Result, create_topics
from tests.bench.load import Load
from tests.bench.services import run_service
from tests.workloads.workload_log import log_producer

EVENTS: Final = "events"
TYPES: Final = [
    f"{kind}.{verb}" for kind in ("order", "payment", "user", "stock") for verb in ("made", "changed", "gone")
]
TO_ALL: Final = "broadcast"  # the type of events for everyone
BROKER_TIME: Final = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    p.add_argument("--events", type=int, default=400_000)
    p.add_argument("--bytes", type=int, default=500, help="of an event's body")
    p.add_argument("--tenants", type=int, default=10_000)
    p.add_argument("--endpoints", type=int, default=10_000)
    p.add_argument("--subscriptions", type=int, default=20_000)
    p.add_argument("--to-all", type=int, default=0, help="events that go to each endpoint, among the others")
    p.add_argument("--runs", type=int, default=1, help="of each, by turns")
    p.add_argument("--why", type=str, action="append", help="values of --why-retention; may be repeated (1h, 0s)")
    a = p.parse_args(arguments)
    table = Table("why", "events/s", "deliveries", "an event", "wall s", "first after s", "CPU us/event", "peak MB")
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        for number in range(a.runs):
            for why in a.why or ["1h", "0s"]:
                prefix = f"r{number}-{why}-"
                send(broker.bootstrap_servers, prefix, a)
                done = run(broker.bootstrap_servers, prefix, [*a.flags, "--why-retention", why])
                print(f"{why}: {done.outputs:,} deliveries in {done.wall_s:.1f} s", file=sys.stderr)
                per_event = done.outputs / a.events
                cpu = f"{done.cpu_s / a.events * 1e6:.0f}"
                table.add_row(
                    why, f"{done.rate / per_event:,.0f}", f"{done.outputs:,}", f"{per_event:.2f}",
                    f"{done.wall_s:.1f}", f"{done.start_s:.1f}", cpu, f"{done.rss_mb:,}",
                )  # fmt: skip
    Console(width=130).print(table)


def run(servers: str, prefix: str, flags: list[str]) -> Result:
    return run_service(
        servers,
        prefix,
        "delivery",
        Load(f'[delivery]\ncloud_events = ["{EVENTS}"]\n', [], "deliveries", no_records),
        flags,
    )


def no_records(n: int) -> Iterator[Any]:
    return iter(())


def send(servers: str, prefix: str, a: argparse.Namespace) -> None:
    """Rows, the ends of their first loads, and events, in topics of this prefix."""
    create_topics(servers, [prefix + EVENTS, f"{prefix}endpoints", f"{prefix}subscriptions"], PARTITIONS, BROKER_TIME)
    largest = {**BROKER_TIME, "max.message.bytes": str(16 * 2**20)}
    create_topics(servers, [f"{prefix}deliveries"], PARTITIONS, largest)
    chance, producer = random.Random(1), log_producer(servers)
    for n in range(a.endpoints):
        row = {"endpointId": f"endpoint-{n}", "owner": "owner", "url": f"https://customer-{n}.example/hook"}
        producer.produce(f"{prefix}endpoints", json.dumps(row), f"endpoint-{n}")
        producer.poll(0)
    for n in range(a.subscriptions):
        producer.produce(f"{prefix}subscriptions", json.dumps(subscription(n, a, chance)), f"subscription-{n}")
        producer.poll(0)
    loaded = Codec(TABLE_LOADED_RECORD).to_json(TableLoaded(0, 0, 0, "bench", 0))
    assert producer.flush(60) == 0
    for table in ("endpoints", "subscriptions"):
        for partition in range(PARTITIONS):
            producer.produce(prefix + table, loaded, partition=partition)
    to_all = set(chance.sample(range(a.events), a.to_all))
    for n in range(a.events):
        type = TO_ALL if n in to_all else chance.choice(TYPES)
        tenant, department = f"tenant-{chance.randrange(a.tenants)}", f"department-{chance.randrange(4)}"
        headers: list[Any] = [
            ("ce_specversion", b"1.0"), ("ce_id", f"event-{n}"), ("ce_source", "bench"), ("ce_type", type),
            ("ce_tenant", tenant), ("ce_department", department),
        ]  # fmt: skip
        body = {"number": n, "status": "OPEN" if n % 2 else "DONE", "text": "x" * max(0, a.bytes - 60)}
        producer.produce(prefix + EVENTS, json.dumps(body), tenant, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def subscription(n: int, a: argparse.Namespace, chance: random.Random) -> dict[str, Any]:
    """One of ten has a filter, one of four departments. The first of each endpoint also gets what goes to all."""
    row: dict[str, Any] = {
        "subscriptionId": f"subscription-{n}", "endpointId": f"endpoint-{n % a.endpoints}", "owner": "owner",
    }  # fmt: skip
    if a.to_all and n < a.endpoints:
        return {**row, "types": [TO_ALL]}
    tenant: dict[str, Any] = {"tenant": f"tenant-{chance.randrange(a.tenants)}"}
    if chance.random() < 0.25:
        tenant["departments"] = [f"department-{number}" for number in range(2)]
    kind = chance.choice(TYPES)
    types = chance.choice((["*"], ["*"], [kind.split(".")[0] + ".*", "user.*"], [kind]))
    filter = {"filter": {"status": ["OPEN", "NEW"]}} if chance.random() < 0.1 else {}
    return {**row, "types": types, "scope": [tenant], **filter}
