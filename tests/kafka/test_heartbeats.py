"""Heartbeats go into partitions that are quiet by what can be seen, and into no others."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from moneystate.errors import BrokerError
from moneystate.kafka.heartbeats import Heartbeats
from tests.kafka.logs import FLUSH_S, Cluster, new_consumer
from tests.reference.kafka_log import read_log

AFTER_S = 4.0


@pytest.fixture
def cluster(memory_cluster: Cluster) -> Cluster:
    return memory_cluster


def heartbeats(cluster: Cluster, topic: str) -> Heartbeats:
    return Heartbeats(cluster.admin, cluster.producer(), [topic], AFTER_S, lambda time_ms: b"%d" % time_ms)


def values(cluster: Cluster, topic: str, partition: int) -> list[bytes | None]:
    return [
        r.value for r in read_log(cluster.bootstrap_servers, [topic], make=new_consumer)[0] if r.partition == partition
    ]


def test_a_quiet_partition_gets_one_each_time_and_a_busy_one_none(cluster: Cluster) -> None:
    topic = cluster.create("events", partitions=2)
    beats = heartbeats(cluster, topic)
    quiet = []
    for second in range(11):
        cluster.send(topic, [b"event"], partition=0)
        quiet.append(beats.turn(float(second), 1_000 + second))
    assert [n for n, written in enumerate(quiet) if written == [(topic, 1)]] == [4, 8]
    assert sum(map(len, quiet)) == 2
    assert values(cluster, topic, 1) == [b"1004", b"1008"]
    assert values(cluster, topic, 0) == [b"event"] * 11


def test_a_partition_with_an_open_transaction_is_not_quiet(cluster: Cluster) -> None:
    topic = cluster.create("events")
    beats = heartbeats(cluster, topic)
    producer = cluster.producer(**{"transactional.id": topic})
    producer.init_transactions(FLUSH_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(FLUSH_S) == 0
    assert not any(beats.turn(float(second), 1_000) for second in range(12))
    producer.commit_transaction(FLUSH_S)
    cluster.wait_until_stable(topic)
    written = [beats.turn(float(second), 1_000) for second in range(12, 20)]
    assert [bool(one) for one in written].index(True) >= AFTER_S - 1


def test_time_in_which_no_broker_answered_does_not_count(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = cluster.create("events")
    beats = heartbeats(cluster, topic)
    assert not any(beats.turn(second, 1_000) for second in (0.0, 2.0, 3.9))
    nobody = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with monkeypatch.context() as away:
        away.setattr(beats, "admin", nobody)
        away.setattr("moneystate.kafka.offsets.METADATA_TIMEOUT_S", 0.5)
        with pytest.raises(BrokerError):
            beats.turn(5.0, 1_000)
    assert not any(beats.turn(second, 1_000) for second in (60.0, 62.0, 63.9))
    assert beats.turn(64.0, 1_000) == [(topic, 0)]


def test_a_heartbeat_that_is_not_written_is_an_error(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = cluster.create("events")
    beats = heartbeats(cluster, topic)
    assert not beats.turn(0.0, 1_000)
    assert not beats.turn(2.0, 1_000)
    monkeypatch.setattr(beats, "producer", Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))
    monkeypatch.setattr("moneystate.kafka.heartbeats.SENT_S", 0.5)
    with pytest.raises(BrokerError):
        beats.turn(4.0, 1_000)
