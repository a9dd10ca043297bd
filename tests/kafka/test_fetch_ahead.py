"""What a reader fetches ahead is bounded in bytes, for all its partitions together."""

from __future__ import annotations

import json
import random
import subprocess
import sys

from moneystate.kafka.ranges import FETCHED_AHEAD_BYTES
from tests.kafka.logs import Cluster

PARTITIONS = 64
RECORD_BYTES = 64 * 1024
DENSE, SPARSE = 1_200, 50  # records of partition 0, and of each of the others: 75 MiB and 197 MiB
SLACK = 1.5  # what the allocator and librdkafka's own buffers add


def fill(cluster: Cluster, topic: str) -> None:
    value = random.Random(1).randbytes(RECORD_BYTES)  # no compression makes it small
    producer = cluster.producer(**{"queue.buffering.max.kbytes": 65_536, "linger.ms": 5})
    for partition in range(PARTITIONS):
        for _ in range(SPARSE if partition else DENSE):
            while True:
                try:
                    producer.produce(topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.05)
    assert producer.flush(60) == 0


def test_partitions_that_are_ahead_of_their_ranges_are_held_in_a_bounded_number_of_bytes(cluster: Cluster) -> None:
    topic = cluster.create("in", partitions=PARTITIONS)
    fill(cluster, topic)
    arguments = [cluster.bootstrap_servers, topic, str(DENSE), str(SPARSE), str(PARTITIONS)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.fetch_ahead", *arguments], capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout)
    assert result["records"] == [DENSE + PARTITIONS - 1, (PARTITIONS - 1) * (SPARSE - 1)]
    assert result["grown"] < SLACK * FETCHED_AHEAD_BYTES
