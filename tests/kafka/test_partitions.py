"""The partition of a key is the one that a real producer chooses."""

from __future__ import annotations

from moneystate.kafka.partitions import murmur2, partition_of_key
from tests.kafka.logs import Cluster
from tests.reference.kafka_log import read_log


def test_the_values_of_kafkas_own_test() -> None:
    # UtilsTest.testMurmur2, signed there
    values = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    assert {key: murmur2(key) for key in values} == {key: value & 0xFFFFFFFF for key, value in values.items()}


def test_a_producer_agrees(cluster: Cluster) -> None:
    topic = cluster.create("keys", 7)
    keys = [b"k" * (1 + n % 9) + b"%d" % n for n in range(100)]
    producer = cluster.producer(partitioner="murmur2_random")
    for key in keys:
        producer.produce(topic, b"v", key)
    producer.flush(60)
    records, _ = read_log(cluster.bootstrap_servers, [topic])
    assert {r.key: r.partition for r in records} == {key: partition_of_key(key, 7) for key in keys}
