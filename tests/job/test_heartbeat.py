"""`moneystate heartbeat` beside a live job: what is quiet holds no result back."""

from __future__ import annotations

import json
import time
from pathlib import Path

from examples.orders import orders
from moneystate.api.plans import plan_of
from moneystate.devbroker import DevBroker
from tests.job.harness import JobProcess
from tests.kafka.logs import Cluster
from tests.log_lines import parsed
from tests.ops.rules import check_healthy
from tests.ports import free_port
from tests.reference.kafka_log import read_log
from tests.reference.model import encode
from tests.scrape import Scrape, health, scraped

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
    ]
    beat = ["heartbeat", "--topics", "orders,payments", "--after", "500ms", "--allowance", "500ms", *common]
    beat += ["--log-level", "debug"]

    pages: list[Scrape] = []

    def closed() -> list[bytes | None]:
        return [record.value for record in read_log(broker.bootstrap_servers, ["orders-closed"], topic_prefix)[0]]

    with JobProcess(run, tmp_path) as job:
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
            beaten = heartbeats.stop()
            assert beaten.code == 0
        assert job.stop().code == 0
    lines = [line for line in parsed(beaten.err) if line["event"] == "heartbeat"]
    assert {(line["topic"], line["partition"]) for line in lines} >= {
        (topic, p) for topic in topics[1:] for p in (0, 1)
    }
    (value,) = closed()
    assert json.loads(value or b"") == {"type": "Closed", "orderId": "late", "status": "EXPIRED", "missing": 5}


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
