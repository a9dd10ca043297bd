"""Throughput of the enrichment by how its input is partitioned, and by how uneven its keys are. Kafka Streams, if
given, reads the inputs that are not partitioned by key, so it writes them to a repartition topic first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import Result, run_job, run_peer, send_workload

SETTINGS: Final = ["COMMIT_MS=1000", "REPARTITION=true"]
NOISY: Final = 1.25  # the rates of one kind differ by so much: the ratio means little


class Workload(NamedTuple):
    """A log in topics of its own."""

    name: str
    prefix: str
    flags: list[str]


UNIFORM: Final = ["--hot", "0"]
BY_KEY: Final = Workload("partitioned by key", "b0-", UNIFORM)
AT_RANDOM: Final = Workload("at random", "b1-", [*UNIFORM, "--scatter"])  # the prefix that peers know
ZIPF: Final = Workload("at random, Zipf 1.2", "b2-", ["--zipf", "1.2", "--scatter"])
WORKLOADS: Final = (BY_KEY, AT_RANDOM, ZIPF)


def main(arguments: list[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("flags", nargs="*", help="after --: flags for moneystate run enrichment")
    p.add_argument("--events", type=int, default=400_000)
    p.add_argument("--users", type=int, default=20_000)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--runs", type=int, default=3, help="of each, by turns")
    p.add_argument("--peers", type=Path, help="folder with the peers' run.sh; its Kafka Streams knows REPARTITION=true")
    a = p.parse_args(arguments)
    results: dict[str, list[Result]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as folder, DevBroker(Path(folder), heap="1g") as broker:
        servers = broker.bootstrap_servers
        for w in WORKLOADS:
            send_workload(
                servers, w.prefix, a.events, a.users, "--seed", str(a.seed), "--flush-marker", *w.flags
            )  # fmt: skip
        for _ in range(a.runs):
            for w in WORKLOADS:  # by turns, so that a slower hour slows all
                note(results, w.name, run_job(servers, w.prefix, a.flags))
            for w in (AT_RANDOM, ZIPF) if a.peers else ():
                settings = [*SETTINGS, "--prefix", w.prefix]
                note(results, peer_name(w), run_peer(servers, a.peers, "kstreams", settings))
    show(results)


def note(results: dict[str, list[Result]], name: str, result: Result) -> None:
    if not result.outputs:
        raise RuntimeError(f"{name}: expected outputs, found none")
    results.setdefault(name, []).append(result)
    print(f"{name}: {result.rate:,.0f} outputs/s, {result.outputs:,} outputs", file=sys.stderr)


def peer_name(workload: Workload) -> str:
    return f"Kafka Streams, {workload.name}"


def show(results: dict[str, list[Result]]) -> None:
    table = Table("input", "runs", "outputs/s", "least", "most", "outputs", "CPU s", "peak MB")
    for name, runs in results.items():
        rates = [r.rate for r in runs]
        shown = [f"{rate:,.0f}" for rate in (statistics.median(rates), min(rates), max(rates))]
        outputs = {f"{r.outputs:,}" for r in runs}
        cpu_s, rss_mb = mean(runs, lambda r: r.cpu_s), max(r.rss_mb for r in runs)
        table.add_row(name, str(len(runs)), *shown, " or ".join(sorted(outputs)), f"{cpu_s:.1f}", f"{rss_mb:,}")
    console = Console(width=130)
    console.print(table)
    pairs = [(AT_RANDOM.name, BY_KEY.name), (ZIPF.name, AT_RANDOM.name)]
    pairs += [(w.name, peer_name(w)) for w in (AT_RANDOM, ZIPF)]
    for one, other in pairs:
        if other in results:
            console.print(ratio(one, other, results))
    if any(max(r.rate for r in runs) > NOISY * min(r.rate for r in runs) for runs in results.values()):
        console.print("warning: the runs of one input differ much, so the machine was not quiet", style="yellow")


def ratio(one: str, other: str, results: dict[str, list[Result]]) -> str:
    """The median over the turns, and their range. Processor time depends less on what else the machine does."""
    turns = [a.rate / b.rate for a, b in zip(results[one], results[other], strict=True)]
    cpu = mean(results[one], lambda r: r.cpu_s) / mean(results[other], lambda r: r.cpu_s)
    rates = f"{statistics.median(turns):.2f} ({min(turns):.2f} to {max(turns):.2f})"
    return f"{one} / {other}: {rates}, CPU {cpu:.2f}"


def mean(runs: list[Result], figure: Callable[[Result], float]) -> float:
    return statistics.fmean(map(figure, runs))
