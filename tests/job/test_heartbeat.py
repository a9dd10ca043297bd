"""`moneystate heartbeat` beside a live job: what is quiet holds no result back. What the job tells others is looked at
on the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from examples.orders import orders
from moneystate.devbroker import DevBroker
from moneystate.runtime.plans import plan_of
from tests.job.harness import JobProcess
from tests.kafka.logs import Cluster
from tests.log_lines import parsed
from tests.ops.rules import check_healthy
from tests.ports import free_port
from tests.reference.kafka_log import read_log
from tests.reference.model import encode
from tests.scrape import Scrape, health, scraped
from tests.telemetry.receivers import Received, Receiver
from tests.waiting import until

ORDERS = "examples.orders.orders:service"


def test_an_order_expires_by_heartbeats_alone(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> None:
    """Three of the four partitions never get an event, and nothing follows the one order. The job's endpoint says who
    holds it back."""
    cluster = Cluster(broker.bootstrap_servers, topic_prefix)
    topics = [cluster.create(name, 2) for name in ("orders", "payments")]
    port = free_port()
    now_ms = time.time_ns() // 1_000_000
    placed = next(i.codec for its in plan_of(ORDERS).inputs.values() for i in its.values() if i.topic == "orders")
    cluster.send(topics[0], [placed.encode(orders.OrderPlaced("late", "eve", 5, now_ms))])
    common = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", topic_prefix)
    run = [
        *("run", ORDERS, "--wait", "1s", "--bound", "1s", "--idle-timeout", "1d", "--format", "orders-closed=json"),
        *("--partitions", "2", "--key-groups", "2", "--checkpoint", str(tmp_path / "checkpoint"), *common),
        *("--metrics-port", str(port), "--stalled-after", "0s"),
        *("--openlineage", "--openlineage-interval", "0s", "--traces"),
    ]
    beat = ["heartbeat", "--topics", "orders,payments", "--after", "500ms", "--allowance", "500ms", *common]

    pages: list[Scrape] = []

    def closed() -> list[bytes | None]:
        return [record.value for record in read_log(broker.bootstrap_servers, ["orders-closed"], topic_prefix)[0]]

    with Receiver() as receiver, JobProcess(run, tmp_path, receiver.environment()) as job:
        job.wait_for((tmp_path / "checkpoint" / "commits" / "0").exists, "a batch is done")
        job.wait_for(lambda: health(port) == (200, "orders: ready"), "the order may be the last record")
        cluster.send(topics[0], [encode("Heartbeat", {"processedAt": now_ms})])
        job.wait_for(lambda: health(port)[1].endswith("s: held by orders/1, which has had no record"), "it stands")
        assert health(port, "/livez") == (200, "orders: alive")
        with JobProcess(beat, tmp_path) as heartbeats:
            job.wait_for(lambda: bool(closed()), "the order has expired")
            job.wait_for(lambda: is_ready(pages, port), "the watermark moves")
            check_metrics(pages[-1])
            check_healthy(pages[-1], "moneystate_job_", tmp_path)
            assert heartbeats.process.poll() is None
            beaten = heartbeats.stop_group()  # a service manager signals the whole group
            assert beaten.code == 0
        assert job.stop().code == 0
        check_lineage(receiver.events(), broker.bootstrap_servers, topic_prefix)
        check_traces(receiver.spans())
    logged = parsed(beaten.err)
    assert (logged[0]["event"], logged[-1]["event"]) == ("writing heartbeats into quiet partitions", "stopped")
    lines = [line for line in logged if line["event"] == "heartbeat"]
    assert {(line["topic"], line["partition"]) for line in lines} >= {
        (topic, p) for topic in topics[1:] for p in (0, 1)
    }
    (value,) = closed()
    assert json.loads(value or b"") == {"type": "Closed", "orderId": "late", "status": "EXPIRED", "missing": 5}


def test_a_reader_of_the_log_that_leaves_does_not_end_the_command(broker: DevBroker, topic_prefix: str) -> None:
    topic = Cluster(broker.bootstrap_servers, topic_prefix).create("quiet")
    beat = ["--topics", "quiet", "--after", "100ms", "--allowance", "0ms", "--log-level", "debug"]
    where = ["--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", topic_prefix]
    command = [sys.executable, "-m", "moneystate.cli.main", "heartbeat", *beat, *where]

    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic})

    def written() -> int:
        end: int = reader.get_watermark_offsets(TopicPartition(topic, 0))[1]
        return end

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            about = (parsed(line)[0] for line in process.stderr)
            assert next(line["topic"] for line in about if "topic" in line) == topic
            process.stderr.close()
            begun = written()
            until(lambda: written() >= begun + 3, lambda: f"{written()} heartbeats, exit code {process.poll()}", 60.0)
        finally:
            process.terminate()
    reader.close()
    assert process.returncode == 0


def is_ready(pages: list[Scrape], port: int) -> bool:
    """Scrapes once more."""
    pages.append(scraped(port))
    return pages[-1].value("moneystate_job_ready") == 1


def check_metrics(scrape: Scrape) -> None:
    """What the job's endpoint shows of the run."""
    job = "moneystate_job_"
    assert scrape.services() == {"orders"}
    batches = scrape.value(job + "batches_total")
    assert (scrape.value(job + "batch"), scrape.value(job + "outputs_total")) == (batches - 1, 1)
    assert scrape.value(job + "records_total", "orders") >= 4  # the order, a heartbeat, and one in each partition
    assert scrape.value(job + "records_total", "payments") >= 2
    assert scrape.value(job + "producers_restarted_total") == 0
    assert scrape.value(job + "state_bytes") > 0
    assert sum(scrape.values(job + "worker_memory_bytes").values()) > 0
    assert set(scrape.values(job + "partition_idle").values()) == {0}
    assert len(scrape.values(job + "watermark_held_by")) == 1
    watermarks = scrape.values(job + "input_watermark_seconds")
    assert set(watermarks) == {("orders",), ("payments",)}
    assert scrape.value(job + "watermark_seconds") == min(watermarks.values())
    for phase in ("source", "operator", "sink", "commit", "plan", "checkpoint"):
        assert scrape.value(job + "phase_seconds_count", phase) > 0
    assert scrape.value(job + "batch_seconds_count") > 0
    for told in ("lineage_events_total", "spans_total"):
        assert scrape.value(job + told, "sent") > 0
        assert ("lost",) not in scrape.values(job + told)


def check_lineage(events: list[dict[str, Any]], brokers: str, prefix: str) -> None:
    """A run that was stopped by a signal."""
    states = [event["eventType"] for event in events]
    assert states[0] == "START"
    assert states[-1] == "ABORT"
    assert set(states[1:-1]) == {"RUNNING"}
    assert len({event["run"]["runId"] for event in events}) == 1
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in events} == {
        ("moneystate", f"{prefix}orders")
    }
    assert events[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    last = {d["name"].removeprefix(prefix): d for d in [*events[-1]["inputs"], *events[-1]["outputs"]]}
    assert {d["namespace"] for d in last.values()} == {f"kafka://{brokers}"}
    assert [d["name"].removeprefix(prefix) for d in events[0]["inputs"]] == ["orders", "payments"]
    assert set(last) == {"orders", "payments", "orders-closed", "orders-dead-letters", "orders-state"}
    fields = [(f["name"], f["type"]) for f in last["orders-closed"]["facets"]["schema"]["fields"]]
    assert fields == [("orderId", "string"), ("status", "string"), ("missing", "long")]
    assert last["orders"]["inputFacets"]["inputStatistics"]["rowCount"] >= 4
    rows = {name: d["outputFacets"]["outputStatistics"]["rowCount"] for name, d in last.items() if "outputFacets" in d}
    assert rows["orders-state"] > 0
    assert (rows["orders-closed"], rows["orders-dead-letters"]) == (1, 0)
    assert "version" in last["orders-state"]["facets"]
    assert "outputFacets" not in {key for d in events[0]["outputs"] for key, value in d.items() if value}


def check_traces(spans: list[Received]) -> None:
    batches = {s.span.span_id: s for s in spans if s.name == "batch"}
    assert {s.service for s in spans} == {"orders"}
    assert sum(s.attributes["moneystate.outputs"] for s in batches.values()) == 1
    for id, batch in batches.items():
        phases = [s for s in spans if s.span.parent_span_id == id]
        assert sorted(s.name for s in phases) == [
            "checkpoint",
            "checkpoint",
            "commit",
            "operator",
            "plan",
            "sink",
            "source",
        ]
        assert {s.span.trace_id for s in phases} == {batch.span.trace_id}
        for s in phases:
            assert batch.span.start_time_unix_nano <= s.span.start_time_unix_nano, s
            assert s.span.end_time_unix_nano <= batch.span.end_time_unix_nano, s
