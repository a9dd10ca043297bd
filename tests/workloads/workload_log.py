"""The seeded workload as complete logs in memory, and those logs sent to a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from confluent_kafka import Producer

from moneystate.kafka.client import new_client
from tests.reference.model import LogRecord, Partition
from tests.workloads import workload

FLUSH_TIMEOUT_S = 120.0


def workload_log(*flags: str) -> tuple[list[LogRecord], list[Partition]]:
    """The records that `workload.py` with these flags would send, in the order of sending, and all partitions.

    The same flags give the same records. `--bootstrap-servers`, `--to-dir` and `--prefix` have no meaning here.
    """
    a = workload.parser().parse_args(flags)
    encode, place = workload.Encoder(), workload.placer(a)
    sent = (
        (r.topic, place(r.key), r.at_ms, r.key.encode(), workload.value_of(r, encode)) for r in workload.generate(a)
    )
    tail = ((t, i, e["processedAt"], None, encode(e)) for t, i, e in workload.closing_heartbeats(a))
    ends: Counter[Partition] = Counter()
    records = []
    for topic, partition, timestamp_ms, key, value in chain(sent, tail):
        records.append(LogRecord(topic, partition, ends[topic, partition], timestamp_ms, key, value))
        ends[topic, partition] += 1
    return records, [(topic, number) for topic in workload.TOPICS for number in range(a.partitions)]


def log_producer(bootstrap_servers: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "enable.idempotence": True, "log_level": 0}
    return new_client(Producer, {**settings, "queue.buffering.max.messages": 1_000_000})


def send_log(
    records: Iterable[LogRecord], bootstrap_servers: str, prefix: str = "", producer: Producer | None = None
) -> None:
    """Append the records to their partitions in the order given; the topics exist. Offsets are the broker's to give.

    `producer`: one that is there already, as a start of one takes half a second. Raises `RuntimeError` where a record
    could not be written.
    """
    failures: list[str] = []
    producer = producer or log_producer(bootstrap_servers)
    for record in records:
        while len(producer) > 500_000:
            producer.poll(0.05)
        producer.produce(
            prefix + record.topic,
            record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp_ms or 0,  # 0: the client puts in the time of sending
            headers=list(record.headers),
            on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
        )
        producer.poll(0)
    left = producer.flush(FLUSH_TIMEOUT_S)
    if left or failures:
        raise RuntimeError(f"{left} records not written, {len(failures)} refused: {failures[:3]}")
