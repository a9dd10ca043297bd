"""`moneystate doctor` on a real broker: nothing to say about a job in order, and one finding for each thing that is set
wrongly."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from moneystate.cli import main
from moneystate.devbroker.java import find_java
from moneystate.job import diagnosis
from moneystate.job.diagnosis import MIB, judged_room
from moneystate.job.run_options import RunOptions
from moneystate.kafka import client
from moneystate.kafka import findings as of_kafka
from moneystate.kafka.findings import HANGING, clock_findings, duration
from moneystate.kafka.offsets import high_watermarks
from moneystate.kafka.topics import partition_counts
from moneystate.runtime import job as runtime_job
from moneystate.spark.job import Job
from tests.enrichment.jobs import Rules, enrichment_job
from tests.kafka.logs import Cluster

WITHIN_S = 90.0
CHANGELOG, COMMITS, OUT = "money-enrichment-state", "money-enrichment-commits", "money-enriched-events"
ORDERS = "examples.orders.orders:service"

Finding = Mapping[str, str]
Doctor = Callable[..., tuple[int, list[Finding]]]


@pytest.fixture
def prepared(cluster: Cluster, tmp_path: Path) -> Path:
    """The checkpoint of an enrichment that has been started, and its topics."""
    options = RunOptions(
        cluster.bootstrap_servers, str(tmp_path / "checkpoint"), topic_prefix=cluster.prefix, partitions=2, key_groups=4
    )
    job = Job(enrichment_job(Rules()), options, lambda progress: None)
    job.prepare()
    job.close()
    return tmp_path / "checkpoint"


@pytest.fixture
def doctor(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Runs the command: its exit code, and its findings."""

    def run(*words: str, service: str = "enrichment", servers: str = cluster.bootstrap_servers) -> Any:
        where = ("--bootstrap-servers", servers, "--topic-prefix", cluster.prefix)
        job = ("--checkpoint", str(tmp_path / "checkpoint"), "--partitions", "2", "--key-groups", "4")
        monkeypatch.setattr("sys.argv", ["moneystate", "doctor", service, *where, *job, "--json", *words])
        with pytest.raises(SystemExit) as end:
            main.main()
        printed = capsys.readouterr()
        assert printed.out, printed.err
        return end.value.code, [finding for mine in json.loads(printed.out).values() for finding in mine]

    return run


def not_ok(findings: list[Finding]) -> dict[str, str]:
    """The levels of the other findings, by what they are about. Each says what to do."""
    others = [finding for finding in findings if finding["level"] != "ok"]
    assert all(finding["do"] for finding in others)
    assert len({finding["about"] for finding in others}) == len(others)
    return {finding["about"]: finding["level"] for finding in others}


def alter(cluster: Cluster, kind: Any, name: str, settings: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in cluster.admin.incremental_alter_configs([resource]).values():
        future.result()


def alter_topic(cluster: Cluster, name: str, **settings: str) -> None:
    alter(cluster, ConfigResource.Type.TOPIC, cluster.prefix + name, settings)


def test_a_job_in_order_has_only_good_findings_and_nothing_is_written(
    cluster: Cluster, prepared: Path, doctor: Doctor
) -> None:
    def there() -> tuple[object, ...]:
        counts = partition_counts(cluster.admin)
        mine = [(name, p) for name, n in counts.items() if name.startswith(cluster.prefix) for p in range(n)]
        return high_watermarks(cluster.admin, mine), {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}

    before = there()
    code, findings = doctor("--data", str(prepared / "replica"))
    assert (code, not_ok(findings)) == (0, {})
    assert there() == before
    assert {finding["about"] for finding in findings} == {
        "program", "java", "disk of the checkpoint", "disk of Spark's local folder", "disk of the replica",
        "checkpoint folder", "checkpoint", "broker", "topics", "markers", "logs", "brokers", "replication", "cleanup",
        "retention", "permissions", "transactions", "clock", "open transactions",
    }  # fmt: skip


def test_each_setting_of_a_topic_that_is_wrong_is_a_finding(cluster: Cluster, prepared: Path, doctor: Doctor) -> None:
    alter_topic(cluster, CHANGELOG, cleanup_policy="compact,delete")
    alter_topic(cluster, COMMITS, cleanup_policy="delete")
    alter_topic(cluster, OUT, cleanup_policy="compact")
    alter_topic(cluster, "wallet-events", retention_ms="7200000")
    alter_topic(cluster, "user-events", retention_bytes="1000000")
    alter_topic(cluster, "user-session-events", min_insync_replicas="2")
    code, findings = doctor()
    assert code == 1
    assert not_ok(findings) == {
        f"topic {cluster.prefix}{CHANGELOG}": "error",
        f"topic {cluster.prefix}{COMMITS}": "error",
        f"topic {cluster.prefix}{OUT}": "warning",
        f"topic {cluster.prefix}wallet-events": "warning",
        f"topic {cluster.prefix}user-events": "warning",
        f"topic {cluster.prefix}user-session-events": "error",
    }
    told = next(finding["text"] for finding in findings if finding["about"].endswith("wallet-events"))
    assert told.startswith("expected retention.ms of at least session_ttl_ms=1d, found 2h")


def test_what_a_start_refuses_is_found_without_one(cluster: Cluster, prepared: Path, doctor: Doctor) -> None:
    alter_topic(cluster, OUT, max_message_bytes="1000")
    cluster.grow({CHANGELOG: 5})
    code, findings = doctor("--key-groups", "8", "--kafka-config", "transaction.timeout.ms=9000000")
    assert (code, not_ok(findings)) == (
        1, {"checkpoint": "error", "changelog": "error", "topics": "error", "transactions": "error"}
    )  # fmt: skip


def test_topics_that_are_missing(cluster: Cluster, doctor: Doctor) -> None:
    assert doctor()[0] == 0
    assert not_ok(doctor()[1]) == {"topics": "warning"}
    assert not_ok(doctor("--replication-factor", "9")[1]) == {"topics": "warning", "new topics": "error"}
    assert not [name for name in partition_counts(cluster.admin) if name.startswith(cluster.prefix)]
    code, findings = doctor("--no-create-topics", service=ORDERS)
    assert code == 1
    assert not_ok(findings)["topics"] == "error"


def test_an_input_that_is_compacted_is_found(cluster: Cluster, doctor: Doctor) -> None:
    cluster.create("orders", cleanup_policy="compact")
    assert not_ok(doctor(service=ORDERS)[1])["topics"] == "error"


def test_a_program_that_has_changed_is_found(prepared: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_job, "LOGIC_VERSION", runtime_job.LOGIC_VERSION + 1)
    code, findings = doctor()
    assert (code, not_ok(findings)) == (0, {"program logic": "warning"})


def test_machine_broker_and_clock(
    cluster: Cluster, prepared: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = of_kafka._now_ms
    monkeypatch.setattr(of_kafka, "_now_ms", lambda: real() + 3_600_000)
    monkeypatch.setattr(diagnosis, "find_java", lambda: find_java({}, ()))
    monkeypatch.setattr(diagnosis, "ROOM_BYTES", 1 << 80)
    with verification(cluster, "false"):
        code, findings = doctor()
    assert code == 1
    assert not_ok(findings) == {
        "java": "error", "disk of the checkpoint": "warning", "disk of Spark's local folder": "warning",
        "broker 1": "warning", "clock": "warning",
    }  # fmt: skip


@contextmanager
def verification(cluster: Cluster, value: str) -> Iterator[None]:
    """The setting of all brokers that keeps transactions from hanging."""
    alter(cluster, ConfigResource.Type.BROKER, "1", {HANGING: value})
    try:
        yield
    finally:
        alter(cluster, ConfigResource.Type.BROKER, "1", {HANGING: "true"})


def test_a_transaction_that_nobody_ends_is_found(
    cluster: Cluster, prepared: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = cluster.producer(**{"transactional.id": f"{cluster.prefix}money-enrichment-1"})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(cluster.prefix + OUT, b"x")
    producer.flush(WITHIN_S)
    monkeypatch.setattr(of_kafka, "STALE_S", -60.0)
    assert not_ok(doctor()[1]) == {f"transaction {cluster.prefix}money-enrichment-1": "warning"}
    producer.abort_transaction(WITHIN_S)


def test_without_a_broker_the_rest_is_still_checked(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "METADATA_TIMEOUT_S", 0.5)
    code, findings = doctor(servers="127.0.0.1:1")
    assert (code, not_ok(findings)) == (1, {"broker": "error"})
    assert {"java", "checkpoint"} <= {finding["about"] for finding in findings}


def test_rules_are_flags_of_their_service(cluster: Cluster, prepared: Path, doctor: Doctor, tmp_path: Path) -> None:
    alter_topic(cluster, "user-events", retention_ms="172800000")
    about = f"topic {cluster.prefix}user-events"
    assert not_ok(doctor("--session-ttl", "2d")[1]) == {}
    assert not_ok(doctor("--session-ttl", "3d")[1]) == {about: "warning"}
    file = tmp_path / "settings.toml"
    file.write_text("[enrichment]\nsession-ttl = '3d'\n[run]\nbound = '1s'\n")
    assert not_ok(doctor("--config", str(file))[1]) == {about: "warning"}
    cluster.create("orders", retention_ms="7200000")
    new = ("--checkpoint", str(tmp_path / "new"))
    problems = not_ok(doctor("--wait", "3h", *new, service=ORDERS)[1])
    assert problems[f"topic {cluster.prefix}orders"] == "warning"
    plain = "services.enrichment.service:service"
    assert "session_ttl_ms=3d" in str(doctor("--session-ttl", "3d", *new, service=plain))


def test_the_size_of_a_folder_that_a_job_is_changing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        (folder / "file").write_bytes(b"12345")
    real = os.stat

    def stat(path: Any, **more: Any) -> os.stat_result:
        for folder in folders:
            if Path(path) == folder / "file":
                shutil.rmtree(next(other for other in folders if other != folder), ignore_errors=True)
        return real(path, **more)

    monkeypatch.setattr(os, "stat", stat)
    assert diagnosis._size(tmp_path) == 5


def test_the_advice_about_replicas_is_not_the_next_finding() -> None:
    for replicas in (2, 3, 5):
        (finding,) = of_kafka._replication("t", replicas, replicas, 1, replicas)
        wanted = re.search(r"min.insync.replicas=(\d+)", finding.do)
        assert (
            replicas == 2
            if wanted is None
            else not of_kafka._replication("t", replicas, replicas, int(wanted[1]), replicas)
        )


def test_room_time_and_durations_are_judged() -> None:
    folder = Path("/x")
    assert judged_room("disk", folder, 2048 * MIB, 0).level == "ok"
    assert judged_room("disk", folder, 2048 * MIB, 4096 * MIB).level == "warning"
    assert judged_room("disk", folder, 100 * MIB, 0).level == "error"
    levels = [
        [f.level for f in clock_findings(10_000, broker_ms, 10_200)]
        for broker_ms in (4_000, 6_000, 10_100, 15_000, 15_201)
    ]
    assert levels == [["warning"], ["ok"], ["ok"], ["ok"], ["warning"]]
    assert [duration(ms) for ms in (0, 5, 90_000, 7_200_000, 86_400_000)] == ["0ms", "5ms", "90s", "2h", "1d"]
