"""Open transactions of an application that does not come back: seen, ended, and those of others left alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from moneystate.cli import main
from moneystate.engine.marker import Claim, Decision, claim_key
from moneystate.errors import BrokerError, InstanceError
from moneystate.kafka import claims, transaction_log, transactions
from moneystate.kafka.offsets import high_watermark, log_ends
from moneystate.kafka.sink import PartitionSink, SinkConfig
from moneystate.kafka.transaction_log import Transaction, decode, partition_of
from tests.kafka.logs import Cluster
from tests.kafka.test_sink import batch, write
from tests.reference.kafka_log import read_values
from tests.waiting import until

WITHIN_S = 90.0
LONG = {"transaction.timeout.ms": "600000"}  # a test that needs it to end would not
COMMITS, OUT = "money-enrichment-commits", "money-enriched-events"
ELSEWHERE = "host elsewhere, process 1, since 2026-01-01T00:00:00+00:00"

Cli = Callable[..., tuple[int, str]]


def config_of(cluster: Cluster, extra: dict[str, str] = LONG) -> SinkConfig:
    """As the enrichment's with this prefix."""
    commits = cluster.create(COMMITS, 2, cleanup_policy="compact")
    out = cluster.create(OUT)
    config = SinkConfig(cluster.bootstrap_servers, extra, cluster.prefix, [out], commits, None, 0, 1)
    return replace(config, instance="first")


@contextmanager
def writing(config: SinkConfig) -> Iterator[subprocess.Popen[str]]:
    """A process that has claimed the application and written a record in an open transaction of output partition 1."""
    code = "from tests.kafka.test_transactions import begin; begin()"
    root = str(Path(__file__).resolve().parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(asdict(config))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
    )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def begin() -> None:
    """What `writing` runs. It commits once it gets a line."""
    config = SinkConfig(**json.loads(sys.argv[1]))
    claims.take(config, claims.this_process(), [0, 1], 0)
    write(PartitionSink(config, 0), 0, "committed")
    sink = PartitionSink(config, 1)
    sink.open(batch(0))
    sink.write([(0, b"key", b"of the killed one", [])])
    assert sink.producer is not None
    sink.producer.flush(WITHIN_S)
    print("open", flush=True)
    if sys.stdin.readline():
        try:
            sink.commit(batch(0))
        except InstanceError as e:
            print(e, flush=True)
    signal.pause()


def claim_in_vain(cluster: Cluster, config: SinkConfig) -> None:
    """The claims of a run that has ended before it could commit them."""
    who = f"host {socket.gethostname()}, process {1 << 30}, since 2026-01-01T00:00:00+00:00"
    producer = cluster.producer(**{"transactional.id": claims.claim_id(config.application_id)})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    key = claim_key(config.application_id, 0)
    producer.produce(config.commits, Claim("in vain", who).encode(), key, 0)
    producer.flush(WITHIN_S)
    producer.abort_transaction(WITHIN_S)


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(WITHIN_S) == -signal.SIGKILL


@pytest.fixture
def moneystate(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command of the enrichment with this prefix: its exit code, and what it printed."""

    def run(*words: str, prefix: str = cluster.prefix) -> tuple[int, str]:
        where = ("--bootstrap-servers", cluster.bootstrap_servers, "--topic-prefix", prefix)
        who = () if "--application-id" in words else ("--application-id", cluster.prefix)
        monkeypatch.setattr("sys.argv", ["moneystate", "transactions", *words, "--service", "enrichment", *who, *where])
        with pytest.raises(SystemExit) as end:
            main.main()
        printed = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, printed.out + printed.err

    return run


def listed(moneystate: Cli) -> dict[str, dict[str, Any]]:
    code, text = moneystate("list", "--json")
    assert code == 0, text
    return {one["transactional_id"]: one for one in json.loads(text)}


def blocked(cluster: Cluster, topic: str) -> bool:
    """Whether read_committed readers wait before the end of the log."""
    return log_ends(cluster.admin, [(topic, 0)])[topic, 0] < high_watermark(cluster.admin, topic, 0)


def test_an_open_transaction_of_a_killed_run_is_listed_and_aborted(cluster: Cluster, moneystate: Cli) -> None:
    config, app = config_of(cluster), cluster.prefix
    out = config.streams[0]
    with writing(config) as process:
        kill(process)
    cluster.send(out, [b"after"])
    assert blocked(cluster, out)
    mine = listed(moneystate)
    assert {name: one["state"] for name, one in mine.items()} == {
        f"{app}-claim": "CompleteCommit", f"{app}-0": "CompleteCommit", f"{app}-1": "Ongoing",
    }  # fmt: skip
    seen = mine[f"{app}-1"]
    assert (seen["open"], seen["timeout_ms"], seen["partitions"]) == (True, 600_000, [f"{out}/0"])
    assert seen["coordinator"].startswith("127.0.0.1:")
    assert seen["since"] is not None
    assert seen["age_ms"] is not None
    code, text = moneystate("list")
    assert code == 0
    assert f"{app}-1  " in text
    assert f"{out}/0" in text

    code, text = moneystate("abort", f"{app}other-1")
    assert (code, "expected a transactional id of application" in text) == (2, True)
    assert blocked(cluster, out)
    code, text = moneystate("abort", "--json")
    assert [(one["transactional_id"], one["state"]) for one in json.loads(text)] == [(f"{app}-1", "aborted")]
    assert code == 0
    until(lambda: not blocked(cluster, out), lambda: "still blocked", WITHIN_S)
    assert read_values(cluster.bootstrap_servers, out) == [b"committed", b"after"]
    assert moneystate("abort") == (0, "no open transactions\n")
    second = replace(config, instance="second")
    claims.take(second, "the next run", [0, 1], 0).close()
    assert write(PartitionSink(second, 1), 0, "again") is Decision.WRITE


def test_a_run_that_is_alive_is_only_fenced_if_told_and_says_who_did_it(cluster: Cluster, moneystate: Cli) -> None:
    config, app = config_of(cluster), cluster.prefix
    with writing(config) as process:
        claim_in_vain(cluster, config)
        code, text = moneystate("abort")
        assert code == 4
        assert f"process {process.pid}" in text
        assert listed(moneystate)[f"{app}-1"]["open"]
        assert moneystate("abort", f"{app}-1", "--fence-running")[0] == 0
        assert not listed(moneystate)[f"{app}-1"]["open"]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("commit\n")
        process.stdin.flush()
        assert "moneystate transactions abort" in process.stdout.readline()
    assert read_values(cluster.bootstrap_servers, config.streams[0]) == [b"committed"]


def test_a_run_on_another_machine_counts_as_alive_while_its_transactions_change(
    cluster: Cluster, moneystate: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(cluster)
    claims.take(config, ELSEWHERE, [0, 1], 0).close()
    PartitionSink(config, 1).open(batch(0))
    sink = PartitionSink(config, 0)
    sink.open(batch(0))
    sink.write([(0, b"key", b"value", [])])
    assert sink.producer is not None
    sink.producer.flush(WITHIN_S)
    monkeypatch.setattr(transactions, "ALIVE_S", 3600.0)
    code, text = moneystate("abort")
    assert (code, "a transaction of it changed" in text, ELSEWHERE in text) == (4, True, True)
    monkeypatch.setattr(transactions, "ALIVE_S", -3600.0)  # the clocks of the broker and of this machine may differ
    assert moneystate("abort")[0] == 0
    assert not listed(moneystate)[f"{cluster.prefix}-0"]["open"]


def test_an_application_with_other_topics_is_refused(cluster: Cluster, moneystate: Cli) -> None:
    """Its transactional ids could be guessed from its application id."""
    config = config_of(cluster)
    other = Cluster(cluster.bootstrap_servers, f"{cluster.prefix}other-")
    other.create(COMMITS, 2, cleanup_policy="compact")
    with writing(config) as process:
        kill(process)
    code, text = moneystate("abort", "--application-id", cluster.prefix, prefix=other.prefix)
    assert (code, "found none: its jobs have other topics" in text) == (2, True)
    assert listed(moneystate)[f"{cluster.prefix}-1"]["open"]


def test_without_a_command_the_broker_aborts_after_the_timeout(cluster: Cluster, moneystate: Cli) -> None:
    config = config_of(cluster, {"transaction.timeout.ms": "1500"})
    out = config.streams[0]
    with writing(config) as process:
        kill(process)
    cluster.send(out, [b"after"])
    until(lambda: not blocked(cluster, out), lambda: "still blocked", WITHIN_S)
    assert listed(moneystate)[f"{cluster.prefix}-1"]["state"] == "CompleteAbort"
    assert read_values(cluster.bootstrap_servers, out) == [b"committed", b"after"]


def test_both_versions_of_the_brokers_records_are_read_and_later_ones_refused() -> None:
    fields = bytes.fromhex("0000000000000007 0003 0000ea60 01".replace(" ", ""))
    times = (5).to_bytes(8, "big") + (4).to_bytes(8, "big")
    plain = b"\0\0" + fields + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2\0\0\0\0\0\0\0\1" + times
    compact = (
        b"\0\1" + fields + b"\x02" + b"\x02t" + b"\x03\0\0\0\0\0\0\0\1" + b"\0" + times + b"\x01\x00\x08" + bytes(8)
    )
    wanted = Transaction("id", 7, 3, "Ongoing", [("t", 0), ("t", 1)], 4, 5, 60_000)
    assert decode("id", plain) == wanted
    assert decode("id", compact) == wanted
    with pytest.raises(BrokerError, match="found version 2"):
        decode("id", b"\0\2" + plain[2:])


def test_an_id_has_the_partition_of_javas_hash() -> None:
    assert partition_of("", 50) == 0
    assert partition_of("polygenelubricants", 50) == 0  # the hash is the smallest integer, which has no absolute value
    assert partition_of("ab", 3000) == 105  # 97 * 31 + 98 = 3105


class Failing:
    """A consumer whose broker has gone away: it reports this again and again."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def consume(self, records: int, timeout_s: float) -> list[Failing]:
        self.calls -= 1
        assert self.calls > 0
        return [self]

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._TRANSPORT)


def test_errors_that_repeat_do_not_keep_a_reader_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr(transaction_log, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(BrokerError, match="expected records, waited for 30 s"):
        list(transaction_log._up_to(Failing(100), "t", {0: 1}))  # type: ignore[arg-type]
