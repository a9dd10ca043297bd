"""A changelog on a real broker, written as the sink does, transaction by transaction; and a follower process on it."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from typing import TypeVar

from confluent_kafka import Producer

from moneystate.engine.keygroup import key_group_of
from moneystate.replica import follower
from moneystate.replica.followed_reader import FollowedReader
from moneystate.replica.model import NotReady, ReplicaError, Version
from moneystate.replica.snapshot import Snapshot
from tests import waiting
from tests.enrichment.topics import CHANGELOG
from tests.kafka.logs import Cluster
from tests.replica.states import MODEL, entry_of, key_of

GROUPS = 8
DEADLINE_S = 90.0
Change = tuple[bytes, bytes | None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Options:
    bootstrap_servers: str
    data: str
    topic_prefix: str
    history_ms: int | None = None
    history_versions: int | None = None
    kafka_config: dict[str, str] = field(default_factory=dict)


class Writer:
    """The job's output partitions: partition n of `outputs` has the key groups n, n + outputs, ..."""

    def __init__(
        self,
        cluster: Cluster,
        partitions: int = 2,
        outputs: int = 2,
        counted: bool = False,
        rules: dict[str, int] | None = None,
        **config: str,
    ) -> None:
        self.cluster = cluster
        self.rules = rules  # end-of-batch records have version 2 and these rules; None: version 1
        self.counted = counted  # end-of-batch records have the number of records
        self.sent: dict[int, Counter[int]] = {}  # records of the open transaction by partition
        self.partitions = partitions
        self.outputs = outputs
        self.topic = cluster.create(CHANGELOG, partitions, cleanup_policy="compact", **config)
        self.producers = [self._producer(n) for n in range(outputs)]

    def _producer(self, output: int) -> Producer:
        made = self.cluster.producer(**{"transactional.id": f"{self.cluster.prefix}app-{output}"})
        made.init_transactions(DEADLINE_S)
        return made

    def restart(self, partitions: int) -> None:
        """As a job that finds so many partitions."""
        self.partitions = partitions
        self.producers = [self._producer(n) for n in range(self.outputs)]

    def batch(self, number: int, changes: Iterable[Change], watermark: int = 0, epoch: str = "one") -> Version:
        """All output partitions, one after the other."""
        mine = list(changes)
        for output in range(self.outputs):
            self.begin(output, mine)
            self.end(output, number, watermark, epoch)
        return Version(epoch, number)

    def begin(self, output: int, changes: Iterable[Change]) -> None:
        """The changes of this output partition's users, uncommitted."""
        producer = self.producers[output]
        producer.begin_transaction()
        self.sent[output] = Counter()
        for key, value in changes:
            group = key_group_of(entry_of(key)[0], GROUPS)
            if group % self.outputs == output:
                producer.produce(self.topic, value, key, partition=group % self.partitions)
                self.sent[output][group % self.partitions] += 1
        producer.flush(DEADLINE_S)

    def end(self, output: int, number: int, watermark: int = 0, epoch: str = "one", records: int | None = None) -> None:
        groups = [g for g in range(GROUPS) if g % self.outputs == output]
        producer = self.producers[output]
        counts = self.counted or records is not None
        for partition in sorted({g % self.partitions for g in groups}):
            fields = {
                "batch": number, "epoch": epoch, "groups": GROUPS, "version": 1, "watermark": watermark,
                "keyGroups": [g for g in groups if g % self.partitions == partition],
                **({"records": self.sent[output][partition] if records is None else records} if counts else {}),
            }  # fmt: skip
            if self.rules is not None:
                fields |= {"version": 2, "rules": self.rules, "partitions": self.partitions}
            key = f"eapp/{output}".encode()
            producer.produce(self.topic, json.dumps(fields).encode(), key, partition=partition)
        producer.commit_transaction(DEADLINE_S)

    def stray(self, output: int, users: Iterable[bytes]) -> None:
        """Tombstones where the users' entries do not belong."""
        for user in users:
            group = key_group_of(user, GROUPS)
            if group % self.outputs == output:
                partition = (group + 1) % self.partitions
                self.producers[output].produce(self.topic, None, key_of("user", user), partition=partition)

    def move(self, output: int, changes: Iterable[Change], before: int) -> None:
        """As one who finds the changelog written for `before` partitions: in the open transaction, a tombstone for each
        key that does not belong where it stands."""
        for key, _ in changes:
            group = key_group_of(entry_of(key)[0], GROUPS)
            if group % self.outputs == output and group % before != group % self.partitions:
                self.producers[output].produce(self.topic, None, key, partition=group % before)

    def commit(self, output: int) -> None:
        """A transaction that is not the batch's last: without an end."""
        self.producers[output].commit_transaction(DEADLINE_S)

    def abort(self, output: int) -> None:
        self.producers[output].abort_transaction(DEADLINE_S)


class Replica:
    """A follower in a process of its own, and a reader of its files."""

    def __init__(self, cluster: Cluster, open_saved: follower.OpenSaved | None = None, **options: object) -> None:
        self.open_saved = open_saved
        self.data = tempfile.mkdtemp(prefix="moneystate-test-")
        self.options = Options(cluster.bootstrap_servers, self.data, cluster.prefix, **options)  # type: ignore[arg-type]
        self.context = multiprocessing.get_context("spawn")
        self.process: SpawnProcess | None = None
        self.reader = FollowedReader(MODEL, self.data)
        self.start()

    def start(self) -> None:
        self.line, theirs = self.context.Pipe()
        self.process = self.context.Process(target=follower.run, args=(self.options, MODEL, theirs, self.open_saved))
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        """As kill -9 does."""
        assert self.process is not None
        self.process.kill()
        self.process.join()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.join(DEADLINE_S)
        assert self.process.exitcode == 0

    def close(self) -> None:
        self.kill()
        self.reader.close()
        shutil.rmtree(self.data, ignore_errors=True)

    def at(self, version: Version) -> Snapshot:
        """Once it is there."""

        def found() -> Snapshot | None:
            self.reader.newest()
            try:
                return self.reader.at_version(version)
            except ReplicaError:
                return None

        snapshot = until(found, f"version {version}")
        assert snapshot is not None
        return snapshot

    def latest(self, version: Version) -> Snapshot:
        """Once the newest is this one."""
        until(lambda: self.reader.newest() == version, f"the newest version to be {version}")
        return self.reader.latest()


def until(holds: Callable[[], Result], description: str) -> Result:
    return waiting.until(holds, lambda: f"waited for {description}", DEADLINE_S)


def is_ready(reader: FollowedReader) -> bool:
    try:
        reader.latest()
    except NotReady:
        return False
    return True
