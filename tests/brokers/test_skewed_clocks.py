"""Arrival order with three brokers whose clocks differ. Each record takes effect once, whatever the skew. What comes
behind the broker's clock is counted. Only several brokers have several clocks."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.brokers.cluster import ThreeBrokers
from tests.chaos.clock import Clock
from tests.job.test_arrival import Parcels
from tests.reference.kafka_log import read_log

AHEAD_S = (0.0, 0.4, -0.4)  # of the nodes' clocks
PARTITIONS = 6
SCANS = 300
PACE_S = 0.02


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path / "brokers", [clock(tmp_path, number) for number in range(len(AHEAD_S))]) as cluster:
        yield cluster


def clock(folder: Path, number: int) -> Mapping[str, str]:
    own = folder / f"clock-{number}"
    own.mkdir()
    made = Clock(own)
    environment = made.environment()
    assert environment is not None, "libfaketime is missing"
    made.file.write_text(f"{AHEAD_S[number]:+.1f}\n")
    return environment


@pytest.mark.long
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="libfaketime is fetched from Debian")
@pytest.mark.parametrize("skew", ["0s", "2s"])
def test_records_behind_the_clock_of_another_broker_are_late_and_nothing_else(
    brokers: ThreeBrokers, tmp_path: Path, skew: str
) -> None:
    parcels = Parcels(brokers.bootstrap_servers, f"skewed{skew}-", tmp_path)
    parcels.cluster.create("scans", PARTITIONS, message_timestamp_type="LogAppendTime")
    with parcels.start("--broker-skew", skew, "--json") as job:
        job.wait_for(parcels.has_run, "a batch")
        send(parcels)
        job.wait_for(lambda: len(scans_told(parcels)) == SCANS, "all scans")
        done = job.stop()
    assert done.code == 0, done.err
    assert sorted(scans_told(parcels)) == [f"scan {number}" for number in sorted(range(SCANS), key=str)]
    is_ahead = AHEAD_S[brokers.leader_of(f"{parcels.cluster.prefix}parcels-clock", 0)] > min(AHEAD_S)
    assert (done.totals["late"] > 0) == (skew == "0s" and is_ahead)
    assert parcels.agrees()


def send(parcels: Parcels) -> None:
    """One after the other, to partitions with different leaders."""
    producer = parcels.cluster.producer()
    for number in range(SCANS):
        value = json.dumps({"type": "Scanned", "parcel": f"p{number % 20}", "number": number})
        producer.produce(parcels.cluster.prefix + "scans", value, partition=number % PARTITIONS)
        producer.poll(0)
        time.sleep(PACE_S)
    assert producer.flush(30) == 0


def scans_told(parcels: Parcels) -> list[str]:
    records, _ = read_log(parcels.cluster.bootstrap_servers, ["seen"], parcels.cluster.prefix)
    told = [json.loads(record.value or b"")["what"] for record in records]
    return [description for description in told if description != "gone"]
