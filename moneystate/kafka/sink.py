"""The transactional sink: one Kafka transaction for each output partition of a batch.

Its protocol, and what a crash after each step leaves behind (`tests/job/test_crash.py` kills the job after each of
them):

Before its first batch a run claims all its output partitions (`moneystate.kafka.claims`); the last run to do so owns
them. Then, for each batch:

0. *planned*: Spark has written the batch's end offset to its offset log. After a crash the same batch runs again.
1. *init*: `init_transactions` of a new producer, unless the claim is another run's: an attempt that comes late must not
   fence its successor. It ends a transaction that a predecessor left open (aborting it) and fences the predecessor.
   Nothing is written.
2. *marker read*: the claim must still be this run's. The marker says whether this batch is already in Kafka
   (`moneystate.engine.marker.decide`). It can be trusted only now: before step 1 the predecessor could still commit.
   Each output partition has its own partition of the commits topic: in a shared one, a transaction that another output
   partition's predecessor left open would hide this marker from read_committed readers. The sink waits for open
   transactions of other applications there.
3. *begun*: `begin_transaction`; nothing is visible.
4. *produced*: the batch's records are with the broker, uncommitted. A crash leaves an open transaction, which
   step 1 of the next run aborts; read_committed readers never see it.
5. *marked*: the marker is in the same transaction. As 4.
6. *committed*: output and marker are visible together. After a crash Spark runs the batch again, as its state and its
   commit log do not have it; step 2 then finds the marker of the next batch with the digest of this batch's end:
   nothing is written, only the state is computed again.
7. *state*: Spark commits the state store of the partition. As 6.
8. *logged*: Spark writes its commit log; the batch is done.

The sink host (`moneystate.job.sink_host`) keeps a producer between batches, or the Python worker if there is no sink
host. Several processes (workers, executors) may take turns on an output partition. So a producer is used again only if
it wrote the marker that this batch follows. Otherwise another process may have fenced it, and it is replaced (steps 1
and 2). If a producer is fenced after that, the claim decides. If it is another run's, this one ends. If it is still
this run's, an attempt has come late: it was frozen between its look at the claims and its `init_transactions`. The
producer is then replaced and the batch written again, unless the marker says that the run has gone on without this
attempt. A sink does so once only: two jobs that always did would fence each other for ever.

Spark may retry the task in any process; the claim stops it there (step 1). A job with another topic prefix and the same
application id has its claims in another topic. A run that such a job fences records this in the commits topic, under
`fenced_key`, and later attempts of the run find the record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from moneystate.engine import keys
from moneystate.engine.ends import EndOfBatch
from moneystate.engine.items import MAX_EVENT_TIME, MIN_EVENT_TIME, NO_TIME, Header, Output
from moneystate.engine.marker import (
    Claim,
    Decision,
    Marker,
    WrongMarker,
    claim_key,
    decide,
    fenced_key,
    marker_key,
)
from moneystate.engine.place import MARK, partition_of, partitions_of, time_bytes, without_record_time
from moneystate.engine.processor import Change, Convert
from moneystate.errors import BrokerError, InstanceError, LateAttemptError, MarkerError
from moneystate.kafka import sizes
from moneystate.kafka.client import advice, base_config, new_client, reason
from moneystate.kafka.convert import converted
from moneystate.kafka.failpoints import failpoint
from moneystate.kafka.groups import other_prefixes
from moneystate.kafka.markers import MarkerLog
from moneystate.records.codec import Codec
from moneystate.records.platform_records import HEARTBEAT_RECORD, Heartbeat

HEARTBEAT = Codec(HEARTBEAT_RECORD)
# A transaction is open for a few seconds, while the operator works on the batch. The broker aborts it after this time.
# A job that dies holds read_committed readers back for as long, unless it is started again, which ends its transactions
# at once. A user's `transaction.timeout.ms` overrides this value.
TRANSACTION_MS = 60_000
CALL_S = 60.0  # the longest that one call to the transaction coordinator may take
# A broker forgets a producer's sequence numbers after a day without records (`producer.id.expiration.ms`), and its
# transactional id after seven days. A producer that has been idle for long is replaced well before.
IDLE_S = 3600.0
FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FATAL)


def transactional_id(application_id: str, output_partition: int) -> str:
    return f"{application_id}-{output_partition}"


@dataclass(frozen=True)
class SinkConfig:
    """Holds what a sink task needs to write its output partition."""

    bootstrap_servers: str
    extra: dict[str, str]
    application_id: str
    streams: list[str]  # topic of each stream number, with prefix
    commits: str
    changelog: str | None  # None: write no changelog
    changelog_partitions: int
    key_groups: int  # of the job, so that readers of the changelog know when they have them all
    superseded: list[str] = field(default_factory=list)
    reader_rules: dict[str, Any] = field(default_factory=dict)  # rules that the changelog tells its readers
    max_message_bytes: int = sizes.PRODUCER_BYTES
    instance: str = ""  # the run that the sink belongs to
    topic_prefix: str = ""
    # Topics without prefix whose progress is in the application's consumer group.
    inputs: list[str] = field(default_factory=list)
    timed: dict[int, int] = field(default_factory=dict)  # timed streams, with the number of partitions of each
    dated: list[int] = field(default_factory=list)  # streams whose records may say their Kafka timestamp
    writers: int = 1  # number of output partitions that have key groups

    def end_key(self, partition: int) -> bytes:
        """The key of an output partition's end-of-batch records in the changelog."""
        return keys.END + f"{self.application_id}/{partition}".encode()


@dataclass(frozen=True)
class BatchId:
    """A batch, with the digests of its start and end offsets."""

    epoch: str  # Spark's query id
    number: int
    start: str
    end: str


class PartitionSink:
    """The sink of one output partition in this process."""

    def __init__(self, config: SinkConfig, partition: int) -> None:
        self.config = config
        self.partition = partition
        self.producer: Producer | None = None
        self.marker: Marker | None = None
        self.last_used_s = 0.0
        self.begun_s: float | None = None  # when the open transaction began
        self.transaction_ms = TRANSACTION_MS
        self.changed: dict[int, int] = {}  # records of the batch in each changelog partition
        self.started = 0  # number of producers that it has started
        self.started_again = False

    def may_write_again(self, batch: BatchId) -> bool:
        """Whether a batch whose producer a late attempt has fenced may be written again: once, if it is still this
        batch's turn. Raises InstanceError if another run has the claim."""
        if self.started_again:
            return False
        self.started_again = True
        try:
            decide(self._read_marker(), batch.epoch, self.config.superseded, batch.number, batch.start, batch.end)
        except WrongMarker:
            return False
        return True

    def open(self, batch: BatchId) -> Decision:
        """Steps 1 to 3. Raises MarkerError if this batch must not be written."""
        if not self._goes_on(batch):
            self._start_anew(batch)
        self.last_used_s = time.monotonic()
        self.changed = {}
        decision = self._decide(batch)
        if decision is Decision.WRITE:
            assert self.producer is not None
            self.begun_s = self.last_used_s
            try:
                self.producer.begin_transaction()
            except KafkaException as e:
                raise self._failed("to begin a transaction", e) from None
            failpoint("begun", batch.number)
        return decision

    def _goes_on(self, batch: BatchId) -> bool:
        return (
            self.producer is not None
            and self.marker == Marker(batch.epoch, batch.number, batch.start)
            and time.monotonic() - self.last_used_s < IDLE_S
        )

    def fence(self) -> None:
        """Step 1."""
        self._connect()
        self._init()

    def _connect(self) -> None:
        self.begun_s = None
        self.producer = self._new_producer()
        self.started += 1

    def _init(self) -> None:
        assert self.producer is not None
        try:
            self.producer.init_transactions(CALL_S)
        except KafkaException as e:
            self.abort()
            raise self._failed("to begin transactions", e) from None

    def _start_anew(self, batch: BatchId) -> None:
        c = self.config
        self._connect()  # before the look at the claims: a process may be frozen between that look and the fencing
        with _marker_log_lock:
            marker_log(c).read()
        self._check_owner()
        failpoint("claim read", batch.number)  # where `tests/chaos/test_short.py` freezes a late attempt
        self._init()
        failpoint("init", batch.number)
        self.marker = self._read_marker()
        failpoint("marker read", batch.number)

    def _read_marker(self) -> Marker | None:
        """Raises InstanceError if another instance owns the output partition."""
        c = self.config
        with _marker_log_lock:
            markers = marker_log(c).read_whole(self.partition)
        self._check_owner()
        return markers.get(marker_key(c.application_id, self.partition))

    def _check_owner(self) -> None:
        """Checks the claims read so far. Raises InstanceError if another instance owns the output partition."""
        c = self.config
        claims = marker_log(c).claims
        owner = claims.get(claim_key(c.application_id, self.partition))
        if owner is not None and owner.instance != c.instance:
            raise superseded(c.application_id, owner)
        fenced = claims.get(fenced_key(c.application_id, self.partition))
        if fenced is not None and fenced.instance == c.instance:
            raise InstanceError(fenced.who, ONE_ID_EACH)

    def _fenced(self, action: str, e: KafkaException) -> BrokerError | InstanceError:
        """The error to raise for an error of the producer. If it was fenced, it names the other instance."""
        if e.args[0].code() not in FENCED:
            return broker_error(self.config, action, e)
        self.abort()
        with _marker_log_lock:
            marker_log(self.config).read()
        self._check_owner()
        c = self.config
        others = other_prefixes(c.bootstrap_servers, c.extra, c.application_id, c.inputs, c.topic_prefix)
        if not others:
            return LateAttemptError(
                f"{c.bootstrap_servers}: expected {action}, but output partition {self.partition} has been taken by "
                f"an attempt that came late: of this run, or of one that it has superseded ({reason(e)}). Nothing is "
                "lost.",
                "start again.",
            )
        names = ", ".join(repr(prefix) for prefix in others)
        message = (
            f"application {c.application_id}, topic prefix {c.topic_prefix!r}: expected to write output partition "
            f"{self.partition} alone, another job with this application id has taken it over. The id is used with "
            f"topic prefix {names}, too."
        )
        self._note_fenced(Claim(c.instance, message))
        return InstanceError(message, ONE_ID_EACH)

    def _note_fenced(self, note: Claim) -> None:
        c = self.config
        producer = new_client(Producer, base_config(c.bootstrap_servers, c.extra))
        producer.produce(c.commits, note.encode(), fenced_key(c.application_id, self.partition), self.partition)
        producer.flush(CALL_S)

    def _decide(self, batch: BatchId) -> Decision:
        try:
            return decide(self.marker, batch.epoch, self.config.superseded, batch.number, batch.start, batch.end)
        except WrongMarker as e:
            raise MarkerError(
                f"{self.config.commits}, output partition {self.partition}: {e.args[0]}.",
                "use the checkpoint that wrote the markers, or start a new one with --new-epoch.",
            ) from None

    def write(self, outputs: Iterable[Output]) -> None:
        """Step 4, for the records of the streams."""
        streams, timed, dated = self.config.streams, self.config.timed, self.config.dated
        for stream, key, value, headers in outputs:
            if stream in timed or stream in dated:
                more: dict[str, Any] = {}
                if stream in timed:
                    more["partition"] = partition_of(key, self.partition, self.config.writers, timed[stream])
                if stream in dated:
                    headers, more["timestamp"] = without_record_time(headers)
                self._produce(streams[stream], key, value, headers=headers, **more)
                continue
            self._produce(streams[stream], key, value, headers=headers) if headers else self._produce(
                streams[stream], key, value
            )

    def write_changes(self, key_group: int, changes: Iterable[Change]) -> None:
        """Step 4 for the changelog. All entries of a key group go to the same partition."""
        c = self.config
        if c.changelog is None:
            return
        to = key_group % c.changelog_partitions
        for key, value in changes:
            self._produce(c.changelog, key, value, partition=to)
            self.changed[to] = self.changed.get(to, 0) + 1

    def mark(self, watermark: int, convert: dict[int, Convert]) -> None:
        """Writes the batch's mark to every partition of timed streams that this output partition writes to. Its value
        is a heartbeat, for readers of an ordinary topic. `convert`: for streams that are not written as Avro."""
        c = self.config
        if watermark == NO_TIME:
            return
        beat = Heartbeat(min(max(watermark, MIN_EVENT_TIME), MAX_EVENT_TIME))
        for stream, partitions in c.timed.items():
            headers: list[Header] = [(MARK, time_bytes(watermark))]
            _, _, value, _ = converted((stream, None, HEARTBEAT.encode(beat), headers), convert)
            for to in partitions_of(self.partition, c.writers, partitions):
                self._produce(c.streams[stream], None, value, headers=headers, partition=to)

    def end_changelog(self, batch: BatchId, watermark: int, key_groups: list[int]) -> None:
        """Writes the end-of-batch record to every changelog partition that this output partition writes to (section
        6)."""
        c = self.config
        if c.changelog is None:
            return
        for to in sorted({group % c.changelog_partitions for group in key_groups}):
            mine = [group for group in key_groups if group % c.changelog_partitions == to]
            records, partitions = self.changed.get(to, 0), c.changelog_partitions
            end = EndOfBatch(
                batch.epoch, batch.number, watermark, mine, c.key_groups, records, partitions, c.reader_rules
            )
            self._produce(c.changelog, c.end_key(self.partition), end.encode(), partition=to)

    def commit(self, batch: BatchId) -> None:
        """Steps 5 and 6. After an error, the next producer aborts the transaction."""
        assert self.producer is not None
        failpoint("produced", batch.number)
        marker = Marker(batch.epoch, batch.number + 1, batch.end)
        key = marker_key(self.config.application_id, self.partition)
        self._produce(self.config.commits, key, marker.encode(), partition=self.partition)
        failpoint("marked", batch.number)
        try:
            self.producer.commit_transaction(CALL_S)
        except KafkaException as e:
            self.producer = None
            raise self._failed("to commit a transaction", e) from None
        self.marker = marker
        failpoint("committed", batch.number)

    def abort(self) -> None:
        """Aborts after an error of the batch. The next batch starts with a new producer."""
        self.producer = None
        self.marker = None

    def _produce(self, topic: str, key: bytes | None, value: bytes | None, **more: Any) -> None:
        assert self.producer is not None
        while True:
            try:
                self.producer.produce(topic, value, key, **more)
                return
            except BufferError:
                self.producer.poll(0.05)
            except KafkaException as e:
                raise self._failed(f"to write to {topic}", e) from None

    def _failed(self, action: str, e: KafkaException) -> BrokerError | InstanceError:
        """The error to raise for an error of the producer."""
        where = self.config.bootstrap_servers
        setting = f"transaction.timeout.ms={self.transaction_ms}"
        open_s = 0.0 if self.begun_s is None else time.monotonic() - self.begun_s
        if open_s * 1000 > self.transaction_ms:
            return BrokerError(
                f"{where}: expected {action} within {setting}, it took {open_s:.0f} s ({reason(e)}).",
                "raise it by --kafka-config and start again; the broker's transaction.max.timeout.ms is its limit.",
            )
        return self._fenced(action, e)

    def _new_producer(self) -> Producer:
        c = self.config
        config = {"transaction.timeout.ms": TRANSACTION_MS, **base_config(c.bootstrap_servers, c.extra)}
        self.transaction_ms = int(config["transaction.timeout.ms"])
        return new_client(
            Producer,
            {
                **config,
                "transactional.id": transactional_id(c.application_id, self.partition),
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "batch.size": sizes.BATCH_BYTES,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 256 * 1024,
                sizes.PRODUCER_SETTING: c.max_message_bytes,
            },
        )


ONE_ID_EACH = "give each job an --application-id of its own."


def superseded(application_id: str, owner: Claim) -> InstanceError:
    return InstanceError(
        f"application {application_id}: expected to be its only instance, another one was started after this one "
        f"({owner.who}) and has taken over.",
        "let one of them run; another job needs an --application-id of its own.",
    )


def broker_error(config: SinkConfig, expected: str, e: KafkaException) -> BrokerError:
    do = "see the broker's log; start again."
    if e.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        do = "lower transaction.timeout.ms by --kafka-config, or raise the broker's transaction.max.timeout.ms."
    if e.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:  # a batch that was planned under other rules
        do = "raise message.max.bytes in --kafka-config and max.message.bytes of the topic; start again."
    return BrokerError(f"{config.bootstrap_servers}: expected {expected}, but {reason(e)}.", advice(e.args[0], do))


_sinks: dict[tuple[str, str, int], PartitionSink] = {}
_marker_logs: dict[tuple[str, str], MarkerLog] = {}
_marker_log_lock = threading.Lock()  # the sink host's threads share a log, which is one consumer


def marker_log(config: SinkConfig) -> MarkerLog:
    """This process's reader of the commits topic."""
    key = (config.bootstrap_servers, config.commits)
    if key not in _marker_logs:
        _marker_logs[key] = MarkerLog(config.bootstrap_servers, config.extra, config.commits)
    return _marker_logs[key]


def cached_sink(config: SinkConfig, partition: int) -> PartitionSink:
    """This process's sink of an output partition."""
    key = (config.bootstrap_servers, config.application_id, partition)
    sink = _sinks.get(key)
    if sink is None or sink.config != config:
        sink = _sinks[key] = PartitionSink(config, partition)
    return sink
