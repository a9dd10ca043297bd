"""Throughput of the services that come with the platform, by turns with the enrichment."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.runtime.json_topic import AVRO, JSON
from tests.bench.backlog import PARTITIONS, Result, create_topics, rate_of, run_job, send_workload, timestamps
from tests.bench.formats import JSON_FLAGS, copy_as_json, in_avro
from tests.bench.load import Load
from tests.bench.tree import Tree
from tests.workloads.workload_log import log_producer

ROOT: Final = Path(__file__).resolve().parents[2]
MONEY: Final = "money-"
IN_JSON: Final = "money-json-"


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("services", nargs="+", help="names, such as joining")
    p.add_argument("--events", type=int, default=400_000, help="of each")
    p.add_argument("--format", choices=(AVRO, JSON), help="of all topics; without it, the default of each")
    p.add_argument("--flag", action="append", default=[], help="for the runs, such as --flag=--max-records-per-batch=5")
    a = p.parse_args(arguments)
    table = Table("what", "events/s", "to the enrichment", "events", "CPU us/event", "peak MB")
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        send_workload(servers, MONEY, a.events, 20_000, "--seed", "11", "--flush-marker")
        money = run_enrichment(servers, a.format, a.flag)
        print(f"enrichment: {money.rate:,.0f} events/s", file=sys.stderr)
        cpu = f"{money.cpu_s / money.outputs * 1e6:.0f}"
        table.add_row("enrichment", f"{money.rate:,.0f}", "1.00", f"{money.outputs:,}", cpu, f"{money.rss_mb:,}")
        for name in a.services:
            load: Load = import_module(f"tests.services.{name}.load").LOAD
            load = in_avro(name, load) if a.format == AVRO else load
            send(servers, load, a.events)
            done = run_service(servers, "", name, load, a.flag)
            print(f"{name}: {done.outputs:,} outputs, first after {done.start_s:.1f} s", file=sys.stderr)
            rate = done.rate * a.events / done.outputs  # each service has outputs throughout: they stand for the events
            cpu = f"{done.cpu_s / a.events * 1e6:.0f}"
            table.add_row(name, f"{rate:,.0f}", f"{rate / money.rate:.2f}", f"{a.events:,}", cpu, f"{done.rss_mb:,}")
    Console(width=130).print(table)


def run_enrichment(servers: str, format: str | None, flags: list[str]) -> Result:
    if format != JSON:
        return run_job(servers, MONEY, flags)
    copy_as_json(servers, MONEY, IN_JSON)
    return run_job(servers, IN_JSON, [*JSON_FLAGS, *flags])


def run_service(servers: str, prefix: str, name: str, load: Load, flags: list[str]) -> Result:
    """Runs the service on what `send` has written. The rate is that of the outputs."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        config = Path(folder) / "bench.toml"
        config.write_text(load.tables)
        command = [sys.executable, "-m", "moneystate.cli.main", "run", name, "--config", str(config), "--quiet"]
        command += ["--bootstrap-servers", servers, "--topic-prefix", prefix, "--until-caught-up", *flags]
        began = time.time()
        process = subprocess.Popen([*command, "--checkpoint", f"{folder}/checkpoint"], cwd=ROOT)
        tree = Tree(process.pid)
        code = process.wait()
        tree.end()
    if code:
        raise RuntimeError(f"{name}: ended with code {code}")
    ended, times_ms = time.time(), timestamps(servers, prefix + load.output)
    if not times_ms:
        sys.exit(f"{name}: expected outputs in {prefix}{load.output}, found none: pass more --events")
    start_s = times_ms[0] / 1000 - began
    return Result(name, rate_of(times_ms), len(times_ms), ended - began, start_s, tree.cpu_s, tree.rss // 2**20)


def send(servers: str, load: Load, events: int, prefix: str = "") -> None:
    """Its topics, and so many events in them."""
    for topic in load.inputs:
        partitions = load.partitions.get(topic, PARTITIONS)
        create_topics(servers, [prefix + topic], partitions, {"retention.ms": "-1", **load.config})
    broker_time = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(16 * 2**20)}
    create_topics(servers, [prefix + load.output], PARTITIONS, broker_time)
    producer = log_producer(servers)
    for topic, key, value in load.records(events):
        producer.produce(prefix + topic, value, key)
        producer.poll(0)
    assert producer.flush(60) == 0
