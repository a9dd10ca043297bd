"""Throughput of the stock ledger, beside the same ledger on Kafka Streams (`peers/StockPeer.java`), on one log.

Both must give the same replies; the rate is that of the replies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from moneystate.devbroker import DevBroker
from tests.bench.backlog import PARTITIONS, Result, create_outputs, create_topics, end_of, messages, rate_of, timestamps
from tests.bench.streams import run_streams
from tests.bench.tree import Tree
from tests.services.stock.load import records

SERVICE: Final = "services.stock.service:stock"
END: Final = "2026-01-01T06:00:00Z"  # after the last expiry
OUTPUTS: Final = ("stock-events", "stock-replies", "stock")


def write(servers: str, prefix: str, count: int) -> int:
    """The log and a heartbeat after it; how many commands it has."""
    topic = f"{prefix}stock-commands"
    create_topics(servers, [topic], PARTITIONS, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    written = 0
    for _, pool, value in records(count):
        producer.produce(topic, value, pool, int(pool.rpartition("-")[2]) % PARTITIONS)
        written += 1
        producer.poll(0)
    for partition in range(PARTITIONS):
        beat = {"type": "Heartbeat", "processedAt": END}
        producer.produce(topic, json.dumps(beat).encode(), partition=partition)
    producer.flush()
    return written


def replies(servers: str, prefix: str) -> dict[str, list[Any]]:
    """By pool, in order."""
    by_pool: dict[str, list[Any]] = {}
    for message in messages(servers, f"{prefix}stock-replies"):
        if message.key():  # else a mark of the timed stream
            value = json.loads(message.value() or b"")
            by_pool.setdefault(value["pool"], []).append(value)
    return by_pool


def run_ledger(servers: str, prefix: str, flags: list[str]) -> Result:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [sys.executable, "-m", "moneystate.cli.main", "run", SERVICE, "--bootstrap-servers", servers]
        command += ["--checkpoint", f"{folder}/checkpoint", "--topic-prefix", prefix, "--until-caught-up", "--json"]
        started, errors = time.time(), Path(folder) / "err"
        with errors.open("w") as err:
            process = subprocess.Popen([*command, "--quiet", *flags], stdout=subprocess.DEVNULL, stderr=err)
            tree = Tree(process.pid)
            code = process.wait()
        tree.end()
        if code:
            raise RuntimeError(errors.read_text()[-2000:])
        return _result("moneystate", servers, prefix, started, tree)


def run_peer(servers: str, prefix: str, expected: int) -> Result:
    """Until it has answered everything."""
    topic = "stock-replies"

    def is_done() -> bool:
        output = prefix + topic
        return end_of(servers, output) >= expected and len(timestamps(servers, output)) >= expected

    return run_streams(servers, prefix, "StockPeer", topic, is_done, {})


def _result(name: str, servers: str, prefix: str, started: float, tree: Tree) -> Result:
    ended, times_ms = time.time(), timestamps(servers, f"{prefix}stock-replies")
    start_s = times_ms[0] / 1000 - started
    return Result(name, rate_of(times_ms), len(times_ms), ended - started, start_s, tree.cpu_s, tree.rss // 2**20)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run")
    p.add_argument("--events", type=int, default=200_000, help="commands, about")
    p.add_argument("--no-peer", action="store_true", help="the ledger alone")
    a = p.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        prefixes = ["own-"] if a.no_peer else ["own-", "streams-"]
        for prefix in prefixes:
            count = write(servers, prefix, a.events)
            create_outputs(servers, [prefix + topic for topic in OUTPUTS])
        results = [run_ledger(servers, prefixes[0], a.flags)]
        if not a.no_peer:
            results.append(run_peer(servers, prefixes[1], count))
            assert replies(servers, prefixes[0]) == replies(servers, prefixes[1]), "the replies differ"
        for r in results:
            print(f"{r.name}: {r.rate:,.0f} commands/s, {r.cpu_s:.0f} s of CPU, {r.rss_mb:,} MB, {r.wall_s:.0f} s")
        if not a.no_peer:
            print(f"moneystate / kafka streams: {results[0].rate / results[1].rate:.2f}")
