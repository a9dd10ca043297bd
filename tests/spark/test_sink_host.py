"""The process that writes to Kafka for Spark's Python workers: a real daemon, real workers, a real broker.

`tests/spark/sink_workers.py` is the daemon: each batch comes from a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException

import moneystate.kafka.sink
from moneystate.engine.items import Output
from moneystate.engine.marker import Decision
from moneystate.errors import JobError, LateAttemptError, MarkerError
from moneystate.job import sink_host
from moneystate.job.batch_writing import SinkSpec
from moneystate.kafka.sink import BatchId, PartitionSink, SinkConfig
from moneystate.spark.sink import hand_over, write_partition
from tests.kafka.logs import Cluster, producers_begun
from tests.reference.kafka_log import read_log, read_values
from tests.spark.sink_workers import GO_ON, Order, Outcome, row

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


class Daemon:
    """A running `tests.spark.sink_workers`; `host`: the process that it forks first."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        self.host = psutil.Process(json.loads(process.stdout.readline())["host"])


class Client:
    """Batches of one application, each by a worker of its own that the daemon forks."""

    def __init__(self, daemon: Daemon, spec: SinkSpec) -> None:
        self.daemon = daemon
        self.process = daemon.process
        self.spec = spec

    def order(self, number: int, *values: str, partition: int = 0, **more: Any) -> None:
        assert self.process.stdin is not None
        order = Order(asdict(self.spec), partition, asdict(batch(number)), list(values), **more)
        self.process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        fields: dict[str, Any] = json.loads(self.process.stdout.readline())
        return fields

    def outcome(self) -> Outcome:
        return Outcome(**self.line())

    def write(self, number: int, *values: str, **more: Any) -> Outcome:
        self.order(number, *values, **more)
        return self.outcome()

    def write_and_wait(self, number: int, value: str) -> int:
        """A worker that hangs before the end of its results, once what it has is with the broker; its process."""
        self.order(number, value, waits=True)
        worker: int = self.line()["worker"]
        deadline = time.monotonic() + DEADLINE_S
        while value.encode() not in self.everything():
            assert time.monotonic() < deadline, f"{value} does not come"
        return worker

    def everything(self) -> list[bytes | None]:
        """The values of the output topic, committed or not."""
        config = self.spec.config
        return [r.value for r in read_log(config.bootstrap_servers, config.streams, isolation="read_uncommitted")[0]]

    def committed(self) -> list[bytes | None]:
        config = self.spec.config
        return read_values(config.bootstrap_servers, config.streams[0])


def batch(number: int) -> BatchId:
    return BatchId("one", number, f"offset {number}", f"offset {number + 1}")


def begun(config: SinkConfig) -> list[int]:
    """How many producers the first two output partitions have had."""
    producers = producers_begun(config.bootstrap_servers)
    return [producers[f"{config.application_id}-{partition}"] for partition in range(2)]


@pytest.fixture
def spec(cluster: Cluster) -> SinkSpec:
    config = SinkConfig(
        cluster.bootstrap_servers,
        {},
        cluster.prefix + "app",
        [cluster.create("out")],
        cluster.create("commits", 2, cleanup_policy="compact"),
        changelog=None,
        changelog_partitions=0,
        key_groups=4,
    )
    return SinkSpec(config, ["out"], cluster.prefix)


@contextmanager
def started() -> Iterator[Daemon]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.sink_workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    with process:
        daemon = Daemon(process)
        try:
            yield daemon
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # workers that still hang, too; the host sees it by itself
            assert process.stdin is not None
            process.stdin.close()
    gone(daemon.host)


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started() as daemon:
        yield daemon


@pytest.fixture
def client(shared: Daemon, spec: SinkSpec) -> Client:
    return Client(shared, spec)


@pytest.fixture
def mortal(spec: SinkSpec) -> Iterator[Client]:
    """Yields the client of a daemon that a test may kill."""
    with started() as daemon:
        yield Client(daemon, spec)


def gone(process: psutil.Process) -> None:
    _, alive = psutil.wait_procs([process], timeout=DEADLINE_S)
    assert not alive, f"{process} lives on"


def test_a_producer_goes_on_from_one_worker_to_the_next(client: Client, cluster: Cluster) -> None:
    outcomes = [client.write(number, f"v{number}") for number in range(5)]
    assert [(o.written, o.outputs, o.error) for o in outcomes] == [(True, 1, "")] * 5
    assert len({o.worker for o in outcomes}) == 5
    other = client.write(0, "of the other", partition=1)
    assert other.written
    assert begun(client.spec.config) == [1, 1]
    cluster.wait_until_stable(*client.spec.config.streams)
    assert client.committed() == [*(f"v{n}".encode() for n in range(5)), b"of the other"]


def test_output_partitions_are_written_at_the_same_time(client: Client) -> None:
    worker = client.write_and_wait(0, "of 0")
    assert client.write(0, "of 1", partition=1).written
    os.kill(worker, GO_ON)
    assert client.outcome() == Outcome(worker, written=True, outputs=1)


def test_a_worker_killed_before_the_end_leaves_nothing_and_the_next_attempt_writes_once(
    client: Client, cluster: Cluster
) -> None:
    assert client.write(0, "v0").written
    os.kill(client.write_and_wait(1, "lost"), signal.SIGKILL)
    assert client.write(1, "v1").written
    assert not client.write(1, "v1").written
    cluster.wait_until_stable(*client.spec.config.streams)
    assert client.committed() == [b"v0", b"v1"]


def test_a_newer_attempt_ends_the_older_one_and_only_it_is_committed(client: Client, cluster: Cluster) -> None:
    older = client.write_and_wait(0, "of the older")
    assert client.write(0, "of the newer").written
    os.kill(older, GO_ON)
    refused = client.outcome()
    assert (refused.worker, refused.error) == (older, "JobError")
    cluster.wait_until_stable(*client.spec.config.streams)
    assert client.committed() == [b"of the newer"]
    assert client.write(1, "v1").written


def test_what_the_host_refuses_the_worker_raises_in_the_same_words(client: Client) -> None:
    with pytest.raises(MarkerError) as here:
        write_partition(client.spec, 0, batch(5), [])
    there = client.write(5, "v5")
    assert (there.error, there.text) == ("MarkerError", str(here.value))


def test_after_results_that_break_off_or_are_none_the_next_attempt_writes_once(
    client: Client, cluster: Cluster
) -> None:
    assert client.write(0, "lost", breaks=True).error == "ConnectionResetError"
    assert client.write(0, raw="00").error == "ValueError"
    assert client.write(0, "v0").written
    cluster.wait_until_stable(*client.spec.config.streams)
    assert client.committed() == [b"v0"]


def test_an_error_that_cannot_travel_is_one_line_of_ours() -> None:
    """A KafkaException cannot be pickled."""
    answer = sink_host._as_answer(KafkaException(KafkaError(KafkaError._TRANSPORT)))
    assert (type(answer), str(answer).count("\n")) == (JobError, 0)


def test_settings_that_librdkafka_refuses_are_told_as_such(client: Client) -> None:
    client.spec = replace(client.spec, config=replace(client.spec.config, extra={"no.such": "1"}))
    refused = client.write(0, "v0")
    assert (refused.error, refused.text.count("\n")) == ("ConfigError", 0)


def test_a_host_that_is_gone_is_one_line(mortal: Client) -> None:
    hanging = mortal.write_and_wait(0, "lost")
    mortal.daemon.host.kill()
    gone(mortal.daemon.host)
    os.kill(hanging, GO_ON)
    outcomes = [mortal.outcome(), mortal.write(0, "v0")]
    assert [(o.error, o.text.count("\n")) for o in outcomes] == [("JobError", 0)] * 2
    assert mortal.committed() == []


def test_the_host_ends_with_its_daemon_though_a_worker_lives_on(mortal: Client) -> None:
    hanging = psutil.Process(mortal.write_and_wait(0, "lost"))
    mortal.process.kill()
    gone(mortal.daemon.host)
    assert hanging.is_running()
    assert mortal.committed() == []


def test_without_a_host_the_worker_writes_by_itself(spec: SinkSpec, cluster: Cluster) -> None:
    reports = [hand_over(spec, 0, batch(number), [row([f"v{number}"])]) for number in range(2)]
    assert [(r.written, r.outputs) for r in reports] == [(True, 1)] * 2
    cluster.wait_until_stable(*spec.config.streams)
    assert read_values(spec.config.bootstrap_servers, spec.config.streams[0]) == [b"v0", b"v1"]


def before_late_attempt(spec: SinkSpec, *values: str) -> Iterator[bytes]:
    """Rows of a batch of output partition 0. Then an attempt takes its producer that has read the claims before."""
    yield from (row([value]) for value in values)
    PartitionSink(spec.config, 0).fence()


def test_a_batch_is_written_again_whose_producer_a_late_attempt_has_fenced(spec: SinkSpec, cluster: Cluster) -> None:
    report = write_partition(spec, 0, batch(0), before_late_attempt(spec, "v0"))
    assert (report.written, report.outputs) == (True, 1)
    assert write_partition(spec, 0, batch(1), [row(["v1"])]).written
    cluster.wait_until_stable(*spec.config.streams)
    assert read_values(spec.config.bootstrap_servers, spec.config.streams[0]) == [b"v0", b"v1"]


def test_a_second_late_attempt_ends_the_run_so_that_two_do_not_fence_each_other_for_ever(spec: SinkSpec) -> None:
    assert write_partition(spec, 0, batch(0), before_late_attempt(spec, "v0")).written
    with pytest.raises(LateAttemptError):
        write_partition(spec, 0, batch(1), before_late_attempt(spec, "v1"))
    assert write_partition(spec, 0, batch(1), [row(["v1"])]).written  # of the next start


def test_a_batch_of_several_rows_is_written_again_whole_and_leaves_no_file(
    spec: SinkSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes with the first record, before the other rows are read."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    write = PartitionSink.write

    def fails_once(sink: PartitionSink, outputs: Iterable[Output]) -> None:
        monkeypatch.setattr(PartitionSink, "write", write)
        PartitionSink(spec.config, 0).fence()
        sink.abort()
        raise LateAttemptError("a late attempt")

    monkeypatch.setattr(PartitionSink, "write", fails_once)
    rows = [row([value]) for value in "abc"]
    assert write_partition(spec, 0, batch(0), rows).outputs == 3
    assert read_values(spec.config.bootstrap_servers, spec.config.streams[0]) == [b"a", b"b", b"c"]
    assert list(tmp_path.iterdir()) == []


def test_an_attempt_that_was_lost_does_not_fence_the_run_that_has_gone_on(spec: SinkSpec) -> None:
    """Spark took its executor for lost, and moved the task."""
    moved = PartitionSink(spec.config, 0)

    def rows() -> Iterator[bytes]:
        yield row(["of the lost one"])
        for number in range(2):
            assert moved.open(batch(number)) is Decision.WRITE
            moved.write([(0, b"key", f"v{number}".encode(), [])])
            moved.commit(batch(number))

    with pytest.raises(LateAttemptError):
        write_partition(spec, 0, batch(0), rows())
    assert moved.open(batch(2)) is Decision.WRITE
    moved.commit(batch(2))
    assert (moved.started, begun(spec.config)) == (1, [2, 0])
    assert read_values(spec.config.bootstrap_servers, spec.config.streams[0]) == [b"v0", b"v1"]


def test_a_producer_that_was_idle_for_long_is_replaced(spec: SinkSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moneystate.kafka.sink, "IDLE_S", 0.0)
    sink = PartitionSink(spec.config, 0)
    for number in range(2):
        assert sink.open(batch(number)) is Decision.WRITE
        sink.commit(batch(number))
    assert begun(spec.config) == [2, 0]
