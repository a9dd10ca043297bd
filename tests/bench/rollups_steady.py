"""Rollups under a steady load: does the job keep up, and with which share of the machine?

Each device sends ten metrics every five seconds, a hundredth of it late or twice. The job runs beside the broker and
the producer. Its lag is how far its watermark is behind the wall clock.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.records.iso_time import from_ms
from tests.bench.backlog import PARTITIONS, create_topics, timestamps
from tests.bench.running import running_job
from tests.bench.tree import Sampler, Tree
from tests.ports import free_port
from tests.scrape import health, scraped
from tests.waiting import until
from tests.workloads.workload_log import log_producer

INTERVAL_S: Final = 5
SAMPLE_S: Final = 10.0
START_WITHIN_S: Final = 120.0
LINES: Final = 12  # of the table
METRICS: Final = ("percent-0", "percent-1", "counter-0", *(f"metric-{n}" for n in range(7)))
RULES: Final = """
[rollups]
metrics = [
    { name = "percent-*", digits = 1, percentiles = true },
    { name = "counter-*", digits = 0, kind = "counter" },
    { name = "*" },
]
"""


class Sample(NamedTuple):
    seconds: float
    lag_s: float
    records: float  # that the job has read since its start
    cpu_s: float  # of the job since its start
    rss_mb: float


def readings(rate: int) -> Iterator[tuple[str, str]]:
    """Device and JSON of one reading after the other, as of now."""
    chance = random.Random(1)
    devices, turn = rate * INTERVAL_S, 0
    while True:
        turn += 1
        for device in range(devices):
            event_time_ms = time.time_ns() // 1_000_000
            if chance.random() < 0.01:
                event_time_ms -= chance.choice((0, 60_000, 3_600_000))
            values = ",".join(
                f'"{name}":{turn if n == 2 else round(50 + chance.gauss(0, 5), 3)}' for n, name in enumerate(METRICS)
            )
            name = f"device-{device}"
            yield name, f'{{"deviceId":"{name}","at":"{from_ms(event_time_ms)}","metrics":{{{values}}}}}'


def send(servers: str, topic: str, rate: int, seconds: float) -> int:
    """Evenly, for so long. Returns how many readings were written."""
    producer, made = log_producer(servers), readings(rate)
    began, sent = time.monotonic(), 0
    while (spent_s := time.monotonic() - began) < seconds:
        for _ in range(int(spent_s * rate) - sent):
            device, reading = next(made)
            producer.produce(topic, reading, device)
            producer.poll(0)
            sent += 1
        threading.Event().wait(0.02)
    assert producer.flush(60) == 0
    return sent


def sample(port: int, tree: Tree, seconds: float) -> Sample:
    page = scraped(port)
    (lag_s,) = page.values("moneystate_job_watermark_lag_seconds").values()
    records = sum(page.values("moneystate_job_records_total").values())
    return Sample(seconds, lag_s, records, tree.cpu_s, sum(rss for _, _, rss in tree.now) / 2**20)


def run(servers: str, folder: Path, rate: int, minutes: float, flags: list[str]) -> tuple[list[Sample], int, int]:
    """The samples, the readings that were written, and the records of `rollups-1m`."""
    broker_time = {"message.timestamp.type": "LogAppendTime"}
    create_topics(servers, ["readings"], PARTITIONS, {"retention.ms": "-1", **broker_time})
    rules, port = folder / "rollups.toml", free_port()
    rules.write_text(RULES)
    flags = ["--config", str(rules), "--metrics-port", str(port), *flags]
    with running_job(servers, "", folder / "checkpoint", flags, ("run", "rollups")) as (tree, _):
        until(lambda: health(port)[0] == 200, lambda: "the job does not become ready", START_WITHIN_S)
        sampler = Sampler(lambda seconds: sample(port, tree, seconds), SAMPLE_S)
        sent = send(servers, "readings", rate, minutes * 60)
        samples = sampler.end()
    return samples, sent, len(timestamps(servers, "rollups-15m"))


def show(samples: list[Sample], sent: int, outputs: int, minutes: float) -> None:
    table = Table("minutes", "records/s", "lag s, most", "cores", "MB")
    size = -(-len(samples) // LINES)
    before = samples[0]
    for n in range(1, len(samples), size):
        part = samples[n : n + size]
        last = part[-1]
        spent_s = last.seconds - before.seconds
        table.add_row(
            f"{last.seconds / 60:.1f}", f"{(last.records - before.records) / spent_s:,.0f}",
            f"{max(s.lag_s for s in part):.1f}", f"{(last.cpu_s - before.cpu_s) / spent_s:.2f}", f"{last.rss_mb:,.0f}",
        )  # fmt: skip
        before = last
    console = Console(width=130)
    console.print(table)
    lags = sorted(s.lag_s for s in samples[1:])
    console.print(f"{sent:,} readings in {minutes:g} minutes; lag: median {lags[len(lags) // 2]:.1f} s, "
                  f"most {lags[-1]:.1f} s; {outputs:,} records in rollups-15m")  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("flags", nargs="*", help="after --: flags for moneystate run rollups")
    parser.add_argument("--rate", type=int, default=2_000, help="readings a second, of ten metrics each")
    parser.add_argument("--minutes", type=float, default=10.0)
    a = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        tempfile.TemporaryDirectory(prefix="bench-broker-") as logs,
        DevBroker(Path(logs), heap="1g") as broker,
    ):
        samples, sent, outputs = run(broker.bootstrap_servers, Path(folder), a.rate, a.minutes, a.flags)
    show(samples, sent, outputs, a.minutes)
