"""`python -m tests.bench`: see --help."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from services.devbroker import DevBroker
from tests.bench.backlog import Result, run_broker_alone, run_job, run_peer

WORKLOAD = Path(__file__).resolve().parents[1] / "workloads" / "workload.py"
PREFIX = "b1-"  # the one that the peers read


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--events", type=int, default=400_000)
    p.add_argument("--users", type=int, default=20_000)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--runs", type=int, default=1, help="of the job")
    p.add_argument("--peers", type=Path, help="folder with the peers' run.sh")
    p.add_argument("--peer", action="append", default=[], help="PEER[,NAME=VALUE...], with --peers")
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate enrich")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        command = [sys.executable, str(WORKLOAD), "--bootstrap-servers", servers, "--prefix", PREFIX, "--create-topics"]
        command += ["--events", str(a.events), "--users", str(a.users), "--seed", str(a.seed), "--flush-marker"]
        subprocess.run(command, check=True)
        results = [run_broker_alone(servers, PREFIX)]
        results += [run_job(servers, PREFIX, a.flags) for _ in range(a.runs)]
        peers = a.peer or (["kstreams,COMMIT_MS=1000"] if a.peers else [])
        for peer in peers:
            name, *settings = peer.split(",")
            results.append(run_peer(servers, a.peers, name, settings))
    show(results)


def show(results: list[Result]) -> None:
    """Ratios are to the first row, and of the job to each peer."""
    table = Table("what", "outputs/s", "to the broker", "outputs", "wall s", "start s", "CPU s", "peak MB")
    for r in results:
        ratio = f"{r.rate / results[0].rate:.2f}"
        numbers = (f"{r.wall_s:.1f}", f"{r.start_s:.1f}", f"{r.cpu_s:.1f}", f"{r.rss_mb:,}")
        table.add_row(r.name, f"{r.rate:,.0f}", ratio, f"{r.outputs:,}", *numbers)
    console = Console()
    console.print(table)
    jobs = [r for r in results if r.name == "moneystate"]
    for peer in results[1 + len(jobs) :]:
        best = max(j.rate for j in jobs)
        console.print(f"moneystate / {peer.name}: {best / peer.rate:.2f}")


if __name__ == "__main__":
    main()
