"""`python -m tests.bench KIND`, of which there are backlog, apply, services, latency, scale, steady, rollups-backlog,
rollups-queries, rollups-steady, query, bootstrap, gaps, reconciliation, stock, stock-latency, changes-latency,
large-pool, console, maps, together, ingest, telemetry, rescale, replicas, executors, costs, start, tables,
partitioning, delivery, delivery-latency, deliver, sick, watermill and memory: see --help of each."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench import (
    apply,
    arrival_latency,
    bootstrap,
    changes,
    changes_latency,
    console,
    costs,
    deliver,
    delivery,
    delivery_latency,
    executors,
    gaps,
    ingest,
    large_pool,
    latency,
    maps,
    memory,
    partitioning,
    query_load,
    reconciliation,
    replicas,
    rescale,
    rollups_backlog,
    rollups_queries,
    rollups_steady,
    scale,
    services,
    sick,
    start,
    steady,
    stock,
    stock_latency,
    tables,
    telemetry,
    together,
    topics,
    watermill,
)
from tests.bench.backlog import OURS, Result, run_broker_alone, run_job, run_peer, run_per_user, send_workload

PREFIX = "b1-"  # the one that the peers read


def main() -> None:
    kind, *rest = sys.argv[1:] or ["backlog"]
    if kind not in KINDS:
        kind, rest = "backlog", sys.argv[1:]
    KINDS[kind](rest)


def parser(about: str) -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run enrichment")
    p.add_argument("--peers", type=Path, help="folder with the peers' run.sh")
    return p


@contextmanager
def broker() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as running:
        yield running.bootstrap_servers


def backlog(arguments: list[str]) -> None:
    p = parser("throughput of a backlog, beside the broker alone")
    p.add_argument("--events", type=int, default=400_000)
    p.add_argument("--users", type=int, default=20_000)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--runs", type=int, default=1, help="of the job")
    p.add_argument("--per-user", action="store_true", help="also the per-user transformWithState")
    p.add_argument("--peer", action="append", default=[], help="PEER[,NAME=VALUE...], with --peers")
    a = p.parse_args(arguments)
    with broker() as servers:
        send_workload(servers, PREFIX, a.events, a.users, "--seed", str(a.seed), "--flush-marker")
        results = [run_broker_alone(servers, PREFIX)]
        results += [run_job(servers, PREFIX, a.flags) for _ in range(a.runs)]
        if a.per_user:
            results.append(run_per_user(servers, PREFIX))
        peers = a.peer or (["kstreams,COMMIT_MS=1000"] if a.peers else [])
        for peer in peers:
            name, *settings = peer.split(",")
            try:
                results.append(run_peer(servers, a.peers, name, settings))
            except subprocess.CalledProcessError as e:  # what was measured until then is to be seen
                print(f"{peer}: failed with code {e.returncode}", file=sys.stderr)
    show(results)


def show(results: list[Result]) -> None:
    """Ratios are to the first row, and of the job to each peer."""
    table = Table("what", "outputs/s", "to the broker", "outputs", "wall s", "start s", "CPU s", "peak MB")
    for r in results:
        ratio = f"{r.rate / results[0].rate:.2f}"
        numbers = (f"{r.wall_s:.1f}", f"{r.start_s:.1f}", f"{r.cpu_s:.1f}", f"{r.rss_mb:,}")
        table.add_row(r.name, f"{r.rate:,.0f}", ratio, f"{r.outputs:,}", *numbers)
    console = Console(width=130)
    console.print(table)
    best = max(r.rate for r in results if r.name == OURS)
    for other in results[1:]:
        if other.name != OURS:
            console.print(f"{OURS} / {other.name}: {best / other.rate:.2f}")


def paced(arguments: list[str]) -> None:
    p = parser("latency under a steady load: from event time to receipt, less the bound of 200 ms")
    p.add_argument("--rate", type=int, action="append", help="money events a second; may be repeated (1000, 5000)")
    p.add_argument("--partitions", type=int, action="append", help="may be repeated (1, 4)")
    p.add_argument("--seconds", type=float, default=30.0)
    p.add_argument("--warm", type=float, default=30.0, help="seconds of load before the measured ones")
    p.add_argument("--heartbeats", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--peer", action="append", default=[], help="PEER[,NAME=VALUE...], with --peers")
    p.add_argument("--order", choices=["event", "arrival"], action="append", help="may be repeated (event)")
    a = p.parse_args(arguments)
    table = Table("load", "sent", "measured", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "joined", "CPU s", "peak MB")
    for rate in a.rate or [1_000, 5_000]:
        for partitions in a.partitions or [1, 4]:
            for order in a.order or ["event"]:
                with broker() as servers:
                    if order == "event":
                        r = latency.measure(servers, rate, partitions, a.heartbeats, a.warm, a.seconds, a.flags)
                    else:
                        r = arrival_latency.measure(servers, rate, partitions, a.warm, a.seconds, a.flags)
                times = [f"{ms:,.0f}" for ms in (r.p50, r.p99, r.p999, r.most)]
                figures = (f"{r.joined:.1%}", f"{r.cpu_s:.1f}", f"{r.rss_mb:,}")
                table.add_row(r.name, f"{r.sent:,}", f"{r.measured:,}", *times, *figures)
    for peer in (a.peer or ["kstreams,COMMIT_MS=100"]) if a.peers else []:
        with broker() as servers:
            name, *settings = peer.split(",")
            table.add_row(*latency.measure_peer(servers, a.peers, name, settings))
    Console(width=130).print(table)


KINDS = {
    "backlog": backlog,
    "apply": apply.main,
    "ingest": ingest.main,
    "services": services.main,
    "latency": paced,
    "query": query_load.main,
    "bootstrap": bootstrap.main,
    "gaps": gaps.main,
    "scale": scale.main,
    "start": start.main,
    "rollups-backlog": rollups_backlog.main,
    "rollups-queries": rollups_queries.main,
    "rollups-steady": rollups_steady.main,
    "steady": steady.main,
    "changes": changes.main,
    "stock": stock.main,
    "reconciliation": reconciliation.main,
    "stock-latency": stock_latency.main,
    "changes-latency": changes_latency.main,
    "console": console.main,
    "deliver": deliver.main,
    "large-pool": large_pool.main,
    "maps": maps.main,
    "memory": memory.main,
    "together": together.main,
    "telemetry": telemetry.main,
    "rescale": rescale.main,
    "replicas": replicas.main,
    "executors": executors.main,
    "costs": costs.main,
    "delivery": delivery.main,
    "sick": sick.main,
    "delivery-latency": delivery_latency.main,
    "partitioning": partitioning.main,
    "tables": tables.main,
    "topics": topics.main,
    "watermill": watermill.main,
}

if __name__ == "__main__":
    main()
