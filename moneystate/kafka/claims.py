"""Claims an application's output partitions for one run, before its first batch.

1. *claimed*: the commits topic has a claim for each output partition, in the same partition as its marker. All claims
   are in one transaction, so if two runs start at the same time, one of them owns all output partitions. After a crash
   the next run claims them again.
2. *fenced*: `init_transactions` for the producer of each output partition, unless another run has claimed since: a run
   that was frozen at step 1 must not fence its successor. This aborts transactions that earlier runs left open, and
   their producers can no longer write. An attempt of theirs that starts a new producer finds the claim
   (`moneystate.kafka.sink`, steps 1 and 2).
3. *taken over*: only for a checkpoint that replaces another one. Each output partition that the application has ever
   had gets a marker of the new epoch, all in one transaction. Before it, only the old checkpoint can go on; after it,
   only the new one. The producer of the claims writes it, so it fails if another run has claimed in the meantime.

From then on only this run commits, until another one claims. The later run wins: it cannot tell whether its predecessor
is alive or has just died, and after a crash nobody wants to wait. The earlier run ends with an error as soon as it sees
the claim.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from moneystate.engine.marker import BEFORE_FIRST_BATCH, Claim, Marker, claim_key, decode_claim, marker_key
from moneystate.errors import InstanceError
from moneystate.kafka.client import admin_client, base_config, new_client, place, range_consumer
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.offsets import log_ends
from moneystate.kafka.ranges import Range, RangeReader
from moneystate.kafka.sink import CALL_S, FENCED, ONE_ID_EACH, PartitionSink, SinkConfig, broker_error, superseded

FENCED_AT_ONCE = 8
WHO = re.compile(r"host (\S+), process (\d+), since (\S+)$")


def this_process() -> str:
    """This run, as its claim describes it."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return f"host {socket.gethostname()}, process {os.getpid()}, since {started}"


def is_alive(who: str) -> bool | None:
    """Whether the process of a claim runs; None: it is one of another machine, so that is not known."""
    match = WHO.search(who)
    return None if match is None or match[1] != socket.gethostname() else process_of(who) is not None


def process_of(who: str) -> psutil.Process | None:
    """The process of a claim; None: it has ended, or is one of another machine."""
    match = WHO.search(who)
    if match is None or match[1] != socket.gethostname():
        return None
    try:
        process = psutil.Process(int(match[2]))
        began, status = process.create_time(), process.status()
    except psutil.NoSuchProcess:
        return None
    is_it = began < datetime.fromisoformat(match[3]).timestamp() + 1  # else another process has got the number
    return process if is_it and status != psutil.STATUS_ZOMBIE else None


def claim_id(application_id: str) -> str:
    """The transactional id that writes claims."""
    return f"{application_id}-claim"


def output_partitions(application_id: str, partitions: int, markers: Iterable[bytes]) -> list[int]:
    """The output partitions of a job, and those that the application has had before, from the keys of `markers`."""
    prefix = marker_key(application_id, 0)[:-1]
    numbers = [key.removeprefix(prefix) for key in markers if key.startswith(prefix)]
    return sorted({*range(partitions), *(int(number) for number in numbers if number.isdigit())})


def take(config: SinkConfig, who: str, partitions: list[int], batch: int) -> Watch:
    """Claims `partitions` for `config.instance`. The watch sees who takes them over. `batch`: only for tests."""
    producer, offsets = _claim(config, who, partitions, batch)
    return Watch(config, producer, offsets[0] + 1)


def claim(config: SinkConfig, who: str, partitions: list[int], batch: int) -> None:
    """Steps 1 and 2."""
    _claim(config, who, partitions, batch)


def _claim(config: SinkConfig, who: str, partitions: list[int], batch: int) -> tuple[Producer, dict[int, int]]:
    """Returns the producer of the claims, and the offset of the claim of each partition."""
    value = Claim(config.instance, who).encode()
    producer = new_client(
        Producer,
        {
            **base_config(config.bootstrap_servers, config.extra),
            "transactional.id": claim_id(config.application_id),
        },
    )
    with _as_one(config, "to claim the output partitions"):
        producer.init_transactions(CALL_S)
        offsets = _write(producer, config, {(p, claim_key(config.application_id, p)): value for p in partitions})
    failpoint("claimed", batch)
    _check_is_last(config, partitions[0], offsets[partitions[0]] + 1)
    with ThreadPoolExecutor(FENCED_AT_ONCE) as pool:
        list(pool.map(lambda partition: PartitionSink(config, partition).fence(), partitions))
    failpoint("fenced", batch)
    return producer, offsets


def _check_is_last(config: SinkConfig, partition: int, offset: int) -> None:
    """Raises InstanceError if a partition of the commits topic has another run's claim at `offset` or after it."""
    admin = admin_client(config.bootstrap_servers, config.extra)
    end = log_ends(admin, [(config.commits, partition)])[config.commits, partition]
    reader = RangeReader(config.bootstrap_servers, config.extra, "moneystate-claims")
    try:
        for message in reader.read([Range(config.commits, partition, offset, end)]):
            _check_owner(config, partition, message)
    finally:
        reader.consumer.close()


def _check_owner(config: SinkConfig, partition: int, message: Message[bytes, bytes]) -> None:
    """Raises InstanceError if the record is another run's claim of this application."""
    value = message.value()
    if message.error() is not None or message.key() != claim_key(config.application_id, partition) or value is None:
        return
    owner = decode_claim(value)
    if owner.instance != config.instance:
        raise superseded(config.application_id, owner)


@contextmanager
def _as_one(config: SinkConfig, expected: str) -> Iterator[None]:
    """Raises InstanceError if another run has claimed since, and BrokerError."""
    try:
        yield
    except KafkaException as e:
        if e.args[0].code() not in FENCED:
            raise broker_error(config, expected, e) from None
        raise InstanceError(
            f"application {config.application_id}: another instance was started at the same moment.", ONE_ID_EACH
        ) from None


def _write(producer: Producer, config: SinkConfig, records: Mapping[tuple[int, bytes], bytes]) -> dict[int, int]:
    """Writes values, by partition of the commits topic and key, in one transaction. Returns each partition's offset."""
    places: dict[int, int] = {}

    def delivered(error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is None:  # else the commit fails
            _, partition, offset = place(message)
            places[partition] = offset

    producer.begin_transaction()
    for (partition, key), value in records.items():
        producer.produce(config.commits, value, key, partition, on_delivery=delivered)
    producer.commit_transaction(CALL_S)
    return places


class Watch:
    """A claim. It watches for claims of other instances, from an offset of the commits topic's partition 0."""

    def __init__(self, config: SinkConfig, producer: Producer, offset: int) -> None:
        self.config = config
        self.producer: Producer | None = producer
        self.consumer: Consumer = range_consumer(config.bootstrap_servers, config.extra, "moneystate-claims")
        self.consumer.assign([TopicPartition(config.commits, 0, offset)])

    def check(self) -> None:
        """Raises InstanceError once another instance has claimed the application. Never blocks."""
        while (message := self.consumer.poll(0)) is not None:
            _check_owner(self.config, 0, message)

    def take_over(self, partitions: Iterable[int], epoch: str) -> None:
        """Step 3 for `partitions`, if there are any. The claim is complete: its producer is no longer needed.

        Raises InstanceError, BrokerError.
        """
        producer, self.producer = self.producer, None
        begun = Marker(epoch, BEFORE_FIRST_BATCH, "").encode()
        markers = {(p, marker_key(self.config.application_id, p)): begun for p in partitions}
        if producer is not None and markers:
            with _as_one(self.config, "to take over the output partitions"):
                _write(producer, self.config, markers)

    def close(self) -> None:
        self.consumer.close()
