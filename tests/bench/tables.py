"""Throughput of orders priced by a table, by turns with the same service that has the rows as a constant, and with the
join with a GlobalKTable of Kafka Streams (`peers/GlobalTablePeer.java`), on one log in JSON."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.records.codec import Codec
from moneystate.records.iso_time import from_ms
from moneystate.records.platform_records import TABLE_LOADED_RECORD, TableLoaded
from tests.bench.backlog import PARTITIONS, Result, create_outputs, create_topics, end_of, messages
from tests.bench.load import Load, Record
from tests.bench.services import ROOT, run_service, send
from tests.bench.streams import run_streams
from tests.workloads.workload_log import log_producer

TABLE, CONSTANT, STREAMS = "table", "constant", "GlobalKTable"
CHARGED: Final = "charged"
START_MS: Final = 1_700_000_000_000
CUSTOMERS: Final = 20_000
NOTE: Final = "x" * 150  # a row has about 200 bytes
SERVICE: Final = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Price:
    cents: int
    note: str


@dataclass(frozen=True)
class Order:
    order: str
    sku: str
    at: ms.Millis


@dataclass(frozen=True)
class Charged:
    order: str
    cents: int


service = ms.Service("charging")
orders = service.input("orders", Order, key="order", time="at", format="json")
charged = service.output("charged", Charged, key="order", format="json")
"""
WITH_TABLE: Final = """
prices = service.table("prices", Price)


@service.on(orders, prices)
def charge(ctx: ms.Context[None], e: Order, prices: ms.Table[Price]) -> None:
    price = prices.get(e.sku)
    ctx.emit(charged, Charged(e.order, -1 if price is None else price.cents))
"""
WITH_CONSTANT: Final = """
ROWS = {{f"sku-{{n}}": Price(n, "{note}") for n in range({rows})}}


@service.on(orders)
def charge(ctx: ms.Context[None], e: Order) -> None:
    price = ROWS.get(e.sku)
    ctx.emit(charged, Charged(e.order, -1 if price is None else price.cents))
"""


def load_of(rows: int) -> Load:
    def records(events: int) -> Iterator[Record]:
        for n in range(events):
            order = {"order": f"order-{n % CUSTOMERS}", "sku": f"sku-{n * 7919 % rows}", "at": from_ms(START_MS + n)}
            yield Record("orders", order["order"], json.dumps(order).encode())

    return Load("", ["orders"], CHARGED, records)


def send_rows(servers: str, prefix: str, rows: int) -> None:
    broker_time = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
    create_topics(servers, [f"{prefix}prices"], PARTITIONS, broker_time)
    producer = log_producer(servers)
    for n in range(rows):
        producer.produce(f"{prefix}prices", json.dumps({"cents": n, "note": NOTE}), f"sku-{n}")
        producer.poll(0)
    assert producer.flush(60) == 0
    loaded = Codec(TABLE_LOADED_RECORD).to_json(TableLoaded(rows, rows, 0, "bench", 0))
    for partition in range(PARTITIONS):
        producer.produce(f"{prefix}prices", loaded, partition=partition)
    assert producer.flush(60) == 0


def service_in(folder: Path, name: str, code: str) -> str:
    module = folder / name / f"charging_{name}.py"
    module.parent.mkdir()
    module.write_text(SERVICE + code)
    release = [sys.executable, "-m", "moneystate.cli.main", "schemas", "release", f"{module}:service"]
    subprocess.run(release, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return f"{module}:service"


def check(servers: str, prefix: str, events: int, rows: int) -> None:
    """That each order has the price of its article."""
    wrong = orders = 0
    for message in messages(servers, prefix + CHARGED):
        orders += 1
        wrong += json.loads(message.value() or b"")["cents"] < 0
    assert (orders, wrong) == (events, 0), f"expected {events} orders with a price, found {orders}, {wrong} without"


def run_table(servers: str, prefix: str, service: str, load: Load, events: int, rows: int, flags: list[str]) -> Result:
    send(servers, load, events, prefix)
    if not service.endswith("constant:service"):
        send_rows(servers, prefix, rows)
    done = run_service(servers, prefix, service, load, ["--drain", *flags])
    check(servers, prefix, events, rows)
    return done


def run_peer(servers: str, prefix: str, load: Load, events: int, rows: int) -> Result:
    create_topics(servers, [f"{prefix}orders"], PARTITIONS, {"retention.ms": "-1"})
    send_rows(servers, prefix, rows)
    create_outputs(servers, [prefix + CHARGED])
    producer = log_producer(servers)
    for topic, key, value in load.records(events):
        producer.produce(prefix + topic, value, key)
        producer.poll(0)
    assert producer.flush(60) == 0

    def is_done() -> bool:
        return (
            end_of(servers, prefix + CHARGED) >= events
            and sum(1 for _ in messages(servers, prefix + CHARGED)) >= events
        )

    done = run_streams(servers, prefix, "GlobalTablePeer", CHARGED, is_done, {})
    check(servers, prefix, events, rows)
    return done


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    p.add_argument("--events", type=int, default=400_000)
    p.add_argument("--rows", type=int, default=100_000)
    p.add_argument("--runs", type=int, default=1, help="of each, by turns")
    p.add_argument("--no-peer", action="store_true", help="the services alone")
    a = p.parse_args(arguments)
    load = load_of(a.rows)
    results: dict[str, list[Result]] = {TABLE: [], CONSTANT: [], STREAMS: []}
    with tempfile.TemporaryDirectory(prefix="bench-") as made, tempfile.TemporaryDirectory(prefix="bench-broker-") as f:
        services = {
            TABLE: service_in(Path(made), TABLE, WITH_TABLE),
            CONSTANT: service_in(Path(made), CONSTANT, WITH_CONSTANT.format(note=NOTE, rows=a.rows)),
        }
        with DevBroker(Path(f), heap="1g") as broker:
            for number in range(a.runs):
                for name, service in services.items():
                    prefix = f"{name}{number}-"
                    done = run_table(broker.bootstrap_servers, prefix, service, load, a.events, a.rows, a.flags)
                    results[name].append(done)
                    print(f"{name}: {done.rate:,.0f} orders/s", file=sys.stderr)
                if not a.no_peer:
                    done = run_peer(broker.bootstrap_servers, f"peer{number}-", load, a.events, a.rows)
                    results[STREAMS].append(done)
                    print(f"{STREAMS}: {done.rate:,.0f} orders/s", file=sys.stderr)
    show(results, a.events)


def show(results: dict[str, list[Result]], events: int) -> None:
    table = Table(
        "prices from", "orders/s", "least", "most", "wall s", "first after s", "CPU us/order", "peak MB", "ratio"
    )
    medians = {name: statistics.median(r.rate for r in runs) for name, runs in results.items() if runs}
    for name, runs in results.items():
        if runs:
            rates = [f"{rate:,.0f}" for rate in (medians[name], min(r.rate for r in runs), max(r.rate for r in runs))]
            cpu = statistics.fmean(r.cpu_s for r in runs) / events * 1e6
            figures = (f"{runs[-1].wall_s:.1f}", f"{runs[-1].start_s:.1f}", f"{cpu:.0f}", f"{runs[-1].rss_mb:,}")
            table.add_row(name, *rates, *figures, f"{medians[TABLE] / medians[name]:.2f}")
    Console(width=130).print(table)
