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
from tests.reference.kafka_log import read_log

ORDERS = "examples.orders.orders:service"


def test_an_order_expires_by_heartbeats_alone(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> None:
    """Three of the four partitions never get an event, and nothing follows the one order."""
    cluster = Cluster(broker.bootstrap_servers, topic_prefix)
    topics = [cluster.create(name, 2) for name in ("orders", "payments")]
    now_ms = time.time_ns() // 1_000_000
    placed = next(i.codec for its in plan_of(ORDERS).inputs.values() for i in its.values() if i.topic == "orders")
    cluster.send(topics[0], [placed.encode(orders.OrderPlaced("late", "eve", 5, now_ms))])
    common = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", topic_prefix)
    run = [
        *("run", ORDERS, "--wait", "1s", "--bound", "1s", "--idle-timeout", "1d", "--format", "orders-closed=json"),
        *("--partitions", "2", "--key-groups", "2", "--checkpoint", str(tmp_path / "checkpoint"), *common),
    ]
    beat = ["heartbeat", "--topics", "orders,payments", "--after", "500ms", "--allowance", "500ms", *common]

    def closed() -> list[bytes | None]:
        return [record.value for record in read_log(broker.bootstrap_servers, ["orders-closed"], topic_prefix)[0]]

    with JobProcess(run, tmp_path) as job, JobProcess(beat, tmp_path) as heartbeats:
        job.wait_for((tmp_path / "checkpoint" / "commits" / "0").exists, "a batch is done")
        job.wait_for(lambda: bool(closed()), "the order has expired")
        assert heartbeats.process.poll() is None
        assert heartbeats.stop().code == 0
        assert job.stop().code == 0
    (value,) = closed()
    assert json.loads(value or b"") == {"type": "Closed", "orderId": "late", "status": "EXPIRED", "missing": 5}
