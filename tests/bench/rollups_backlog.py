"""Rollups of a backlog, beside chdb, which inserts the same readings into a materialized view for each tier, and beside
windows of Kafka Streams (`peers/RollupsPeer.java`).

Neither has corrections: a reading that comes twice counts twice. chdb reads lines of a file, not Kafka. So it shows
what a column store takes for the aggregates alone. `make test ARGS=tests/services/rollups` fetches it. The times of the
other two include their starts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from tests.bench.backlog import Result, create_outputs, end_of
from tests.bench.services import run_service, send
from tests.bench.streams import run_streams
from tests.services.rollups.load import LOAD, METRICS

CHUNK: Final = 50_000  # readings of an insert
QUIET_LOOKS: Final = 8  # without a new record, after which the peer has put out everything
LEAST_FOR_PEER: Final = 900_000  # readings, 75 minutes of all devices
PEER: Final = "peer-"
PEER_OUTPUT: Final = "rollups-1m"
COLUMNS: Final = "deviceId String, at Int64, metrics Map(String, Float64)"
TIERS: Final = {"1m": "1 MINUTE", "15m": "15 MINUTE", "1h": "1 HOUR", "1d": "1 DAY"}
AGGREGATES: Final = (
    "countState(v) AS n, minState(v) AS least, maxState(v) AS most, sumState(v) AS total, argMinState(v, t) AS first, "
    "argMaxState(v, t) AS last, quantilesTDigestState(0.5, 0.9, 0.99)(v) AS quantiles"
)
VALUES: Final = (
    "SELECT deviceId, pair.1 AS metric, fromUnixTimestamp64Milli(at, 'UTC') AS t, pair.2 AS v "
    "FROM readings ARRAY JOIN CAST(metrics, 'Array(Tuple(String, Float64))') AS pair"
)


def write_lines(file: Path, events: int) -> None:
    with file.open("wb") as lines:
        for record in LOAD.records(events):
            lines.write(record.value + b"\n")


def run_chdb(folder: Path, events: int) -> tuple[float, float]:
    """Wall and processor seconds of all inserts."""
    from chdb.session import Session  # only here: it is not installed for the other benchmarks

    file = folder / "readings.jsonl"
    write_lines(file, events)
    session = Session(str(folder / "chdb"))
    session.query(f"CREATE TABLE readings ({COLUMNS}) ENGINE = Null")
    for name, length in TIERS.items():
        bucket = f"toStartOfInterval(t, INTERVAL {length})"
        session.query(
            f"CREATE MATERIALIZED VIEW tier_{name} ENGINE = AggregatingMergeTree ORDER BY (deviceId, metric, start) AS "
            f"SELECT deviceId, metric, {bucket} AS start, {AGGREGATES} FROM ({VALUES}) GROUP BY deviceId, metric, start"
        )
    process = psutil.Process()
    before, began = process.cpu_times(), time.monotonic()
    session.query(
        f"INSERT INTO readings SELECT * FROM file('{file}', JSONEachRow, '{COLUMNS}') "
        f"SETTINGS max_insert_block_size = {CHUNK}, max_block_size = {CHUNK}"
    )
    wall_s, after = time.monotonic() - began, process.cpu_times()
    counted = json.loads(str(session.query("SELECT countMerge(n) AS n FROM tier_1d", "JSONEachRow")))
    assert int(counted["n"]) == events * METRICS, counted
    session.close()
    return wall_s, after.user + after.system - before.user - before.system


def run_job(servers: str, events: int, flags: list[str]) -> Result:
    send(servers, LOAD, events)
    return run_service(servers, "", "rollups", LOAD, flags)


def run_peer(servers: str, events: int) -> Result:
    send(servers, LOAD, events, PEER)
    create_outputs(servers, [f"{PEER}rollups-{tier}" for tier in TIERS if f"rollups-{tier}" != LOAD.output])
    ends = [0]

    def is_done() -> bool:
        ends.append(end_of(servers, PEER + PEER_OUTPUT))
        return ends[-1] > 0 and len(set(ends[-QUIET_LOOKS:])) == 1

    return run_streams(servers, PEER, "RollupsPeer", PEER_OUTPUT, is_done, {})


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("flags", nargs="*", help="after --: flags for moneystate run rollups")
    parser.add_argument("--events", type=int, default=1_000_000, help="readings of ten metrics")
    parser.add_argument("--no-peer", action="store_true", help="without Kafka Streams")
    a = parser.parse_args(arguments)
    if not a.no_peer and a.events < LEAST_FOR_PEER:
        parser.error(f"expected --events {LEAST_FOR_PEER} or more, or --no-peer: its windows close after an hour")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        figures = {"chdb": run_chdb(Path(folder), a.events)}
    with tempfile.TemporaryDirectory(prefix="bench-broker-") as logs, DevBroker(Path(logs), heap="1g") as broker:
        job = run_job(broker.bootstrap_servers, a.events, a.flags)
        figures["moneystate"] = job.wall_s, job.cpu_s
        if not a.no_peer:
            peer = run_peer(broker.bootstrap_servers, a.events)
            figures["Kafka Streams"] = peer.wall_s, peer.cpu_s
    table = Table("what", "readings/s", "seconds", "CPU us/reading", "moneystate to it", "by CPU")
    ours_s, ours_cpu_s = figures["moneystate"]
    for name, (wall_s, cpu_s) in figures.items():
        rates = (f"{a.events / wall_s:,.0f}", f"{wall_s:.1f}", f"{cpu_s / a.events * 1e6:.1f}")
        table.add_row(name, *rates, f"{wall_s / ours_s:.3f}", f"{cpu_s / ours_cpu_s:.3f}")
    Console(width=130).print(table)
