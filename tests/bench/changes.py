"""Throughput of changes, beside foreign-key joins of the same topics on Kafka Streams (`peers/ChangesPeer.java`).

The peer knows no transactions, so it answers an easier question: it puts out rows as they meet. The rate is in rows of
tables, as far as outputs show it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import Result, create_outputs, end_of
from tests.bench.services import run_service, send
from tests.bench.streams import run_streams
from tests.services.changes.load import LOAD, RECORDS, ROWS

JOINED: Final = "joined"
QUIET_LOOKS: Final = 30  # at the end of the peer's output, one each second


def run_peer(servers: str, prefix: str, settings: dict[str, str]) -> Result:
    """Until it puts out nothing more: what it puts out depends on what arrives first."""
    ends: list[int] = []

    def is_done() -> bool:
        ends.append(end_of(servers, prefix + JOINED))
        return ends[-1] > 0 and len(ends) > QUIET_LOOKS and ends[-1] == ends[-QUIET_LOOKS]

    return run_streams(servers, prefix, "ChangesPeer", JOINED, is_done, settings)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--events", type=int, default=400_000, help="records of the connector, about")
    p.add_argument("--flag", action="append", default=[], help="for moneystate run: --flag=--max-records-per-batch=5")
    p.add_argument("--runs", type=int, default=1, help="of each, by turns")
    p.add_argument("--peer", action="append", default=[], help="NAME=VALUE,...: another setting of the peer")
    p.add_argument("--no-peer", action="store_true", help="the service alone")
    a = p.parse_args(arguments)
    settings = [dict(one.split("=") for one in given.split(",") if one) for given in ["", *a.peer]]
    rows = a.events * ROWS // RECORDS
    table = Table("what", "rows/s", "rows", "outputs", "wall s", "start s", "CPU us/row", "peak MB", "ratio")
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        for number in range(a.runs):
            send(servers, LOAD, a.events, f"own{number}-")
            own = run_service(servers, f"own{number}-", "changes", LOAD, a.flag)
            results = [own]
            for setting, given in enumerate([] if a.no_peer else settings):
                prefix = f"streams{number}-{setting}-"
                send(servers, LOAD, a.events, prefix)
                create_outputs(servers, [prefix + JOINED])
                results.append(run_peer(servers, prefix, given))
            for r in results:
                rate = r.rate * rows / r.outputs
                print(f"{r.name}: {rate:,.0f} rows/s", file=sys.stderr)
                ratio = own.rate * r.outputs / (r.rate * own.outputs)
                figures = (f"{r.wall_s:.1f}", f"{r.start_s:.1f}", f"{r.cpu_s / rows * 1e6:.0f}", f"{r.rss_mb:,}")
                table.add_row(r.name, f"{rate:,.0f}", f"{rows:,}", f"{r.outputs:,}", *figures, f"{ratio:.2f}")
    Console(width=150).print(table)
