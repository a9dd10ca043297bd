"""Throughput of the stock ledger, beside the same ledger on Kafka Streams (`peers/StockPeer.java`), on one log.

Both must put out the same events, replies and levels. The rate is that of the replies, of which each command has one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import PARTITIONS, Result, create_outputs, end_of, messages
from tests.bench.services import run_service, send
from tests.bench.streams import run_streams
from tests.services.stock.load import LOAD

SERVICE: Final = "services.stock.service:stock"
END: Final = "2026-01-01T06:00:00Z"  # after the last expiry
REPLIES: Final = "stock-replies"
OUTPUTS: Final = ("stock-events", REPLIES, "stock")

Written = dict[str, dict[bytes, list[Any]]]  # by topic and key, in order


def prepare(servers: str, prefix: str, commands: int) -> None:
    """Topics and the log, with a heartbeat after which no reservation is open."""
    send(servers, LOAD, commands, prefix)
    create_outputs(servers, [prefix + topic for topic in OUTPUTS if topic != LOAD.output])
    producer = Producer({"bootstrap.servers": servers})
    for partition in range(PARTITIONS):
        beat = {"type": "Heartbeat", "processedAt": END}
        producer.produce(f"{prefix}stock-commands", json.dumps(beat).encode(), partition=partition)
    assert producer.flush(30) == 0


def written(servers: str, prefix: str) -> Written:
    """Without the marks of timed streams, which have no key."""
    by_topic: Written = {topic: {} for topic in OUTPUTS}
    for topic, by_key in by_topic.items():
        for message in messages(servers, prefix + topic):
            if message.key():
                by_key.setdefault(message.key() or b"", []).append(json.loads(message.value() or b""))
    return by_topic


def counts(outputs: Written) -> dict[str, int]:
    return {topic: sum(map(len, by_key.values())) for topic, by_key in outputs.items()}


def run_peer(servers: str, prefix: str, expected: dict[str, int], settings: dict[str, str]) -> Result:
    """Until it has put out everything that is expected of it."""

    def is_done() -> bool:
        if any(end_of(servers, prefix + topic) < n for topic, n in expected.items()):
            return False
        now = counts(written(servers, prefix))
        return all(now[topic] >= n for topic, n in expected.items())

    return run_streams(servers, prefix, "StockPeer", REPLIES, is_done, settings)


def differences(own: Written, peers: Written) -> int:
    """How many keys of all topics have other records, or the same ones in another order."""
    return sum(
        own[topic].get(key) != peers[topic].get(key) for topic in OUTPUTS for key in own[topic].keys() | peers[topic]
    )


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--events", type=int, default=400_000, help="commands, about")
    p.add_argument("--flag", action="append", default=[], help="for moneystate run: --flag=--max-records-per-batch=5")
    p.add_argument("--runs", type=int, default=1, help="of each, by turns")
    p.add_argument("--peer", action="append", default=[], help="NAME=VALUE,...: another setting of the peer")
    p.add_argument("--no-peer", action="store_true", help="the ledger alone")
    a = p.parse_args(arguments)
    settings = [dict(one.split("=") for one in given.split(",") if one) for given in ["", *a.peer]]
    results: list[tuple[Result, int]] = []
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        for number in range(a.runs):
            prefix = f"own{number}-"
            prepare(servers, prefix, a.events)
            results.append((run_service(servers, prefix, SERVICE, LOAD, a.flag), 0))
            own = written(servers, prefix)
            for setting, given in enumerate([] if a.no_peer else settings):
                prefix = f"streams{number}-{setting}-"
                prepare(servers, prefix, a.events)
                done = run_peer(servers, prefix, counts(own), given)
                results.append((done, differences(own, written(servers, prefix))))
            print(f"outputs: {', '.join(f'{topic} {n:,}' for topic, n in counts(own).items())}")
    show(results)


def show(results: list[tuple[Result, int]]) -> None:
    """Ratios are those of the ledger's run before. `differing`: keys with other outputs than in that run."""
    table = Table(
        "what", "commands/s", "commands", "differing", "wall s", "start s", "CPU us/command", "peak MB", "ratio"
    )
    own = 0.0
    for r, differing in results:
        own = r.rate if r.name == SERVICE else own
        ratio = "" if r.name == SERVICE else "not the same ledger" if differing else f"{own / r.rate:.2f}"
        figures = (f"{r.wall_s:.1f}", f"{r.start_s:.1f}", f"{r.cpu_s / r.outputs * 1e6:.0f}", f"{r.rss_mb:,}")
        name = "stock" if r.name == SERVICE else r.name
        table.add_row(name, f"{r.rate:,.0f}", f"{r.outputs:,}", f"{differing:,}", *figures, ratio)
    Console(width=150).print(table)
