"""Workers on a real broker with real receivers: singles, batches, order, kills, and a worker that stood still."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.deliver.history import Redeliver, Resume, SendTest, Undelivered, from_json
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.status_events import EVENTS
from moneystate.devbroker import DevBroker
from tests.deliver.workers import PARTITIONS, WITHIN_S, Site, numbers_in
from tests.kafka.logs import Cluster
from tests.ops.rules import used
from tests.ports import free_port
from tests.reference.kafka_log import read_log
from tests.scrape import health, scraped
from tests.waiting import until

QUICK = ("--kafka-config", "session.timeout.ms=6000")  # the least that a broker takes
TOO_OLD_MS = time.time_ns() // 1_000_000 - 80 * 3_600_000  # for another attempt


@pytest.fixture
def site(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Site]:
    with Site(Cluster(broker.bootstrap_servers, topic_prefix), tmp_path) as made:
        yield made


def test_singles_and_batches_are_delivered_and_refused_ones_are_undelivered(site: Site) -> None:
    site.endpoint("good", "/ok")
    site.endpoint("picky", "/status/422", maxInFlight=10)
    site.endpoint("gone", "/ok", paused=True)
    site.subscription("single", "good")
    site.subscription("batch", "good", mode="batch", maxMessages=10, maxWaitMs=200)
    site.subscription("refused", "picky")
    site.subscription("cancelled", "gone")
    port = free_port()
    worker = site.worker("--metrics-port", str(port))
    until(lambda: health(port)[0] == 200, worker.err, WITHIN_S)
    site.send("single", "good", 20)
    site.send("batch", "good", 25)
    site.send("refused", "picky", 1, TOO_OLD_MS)
    site.send("cancelled", "gone", 1)
    until(lambda: scraped(port).values("moneystate_deliver_endpoint_pending") == {("gone",): 1}, worker.err, WITHIN_S)
    assert scraped(port).names() >= used("moneystate_deliver_")
    until(lambda: len(site.outcomes()) == 46, worker.err, WITHIN_S)
    assert {one.headers["content-type"] for one in site.receiver.journal if one.path == "/ok"} == {
        "application/json", "application/cloudevents-batch+json",
    }  # fmt: skip
    site.subscription("late", "good")
    site.send("late", "good", 5)
    until(lambda: len(site.outcomes()) == 51, worker.err, WITHIN_S)
    assert {name for name, its in site.outcomes().items() if its != [Outcome.DELIVERED]} == {"msg_45"}
    site.producer.produce(site.cluster.prefix + "endpoints", None, b"gone")
    site.producer.flush(WITHIN_S)
    site.wait_for_all(worker)
    assert worker.stop().code == 0
    site.check()
    assert site.outcomes()["msg_46"] == [Outcome.CANCELLED]
    records, _ = read_log(site.cluster.bootstrap_servers, ["undelivered"], site.cluster.prefix)
    left = [from_json(record.value) for record in records]
    assert [(one.outcome, one.status) for one in left if isinstance(one, Undelivered)] == [(Outcome.DEAD, 422)]


def test_the_largest_records_are_kept_over_a_kill(site: Site) -> None:
    """Above the broker's default of 1 MB: in a batch, alone, and undelivered."""
    site.endpoint("picky", "/status/422")
    site.subscription("refused", "picky")
    site.endpoint("slow", "/hang", timeoutMs=1_000)
    site.subscription("batch", "slow", mode="batch", maxMessages=1_000, maxBytes=10_000_000, maxWaitMs=100)
    site.subscription("single", "slow")
    worker = site.worker(*QUICK)
    site.send("single", "slow", 1, text="x" * 3_000_000)
    site.send("batch", "slow", 4, text="x" * 3_000_000)
    until(lambda: len(site.receiver.journal) >= 2, worker.err, WITHIN_S)
    worker.kill()
    site.send("refused", "picky", 1, TOO_OLD_MS, text="x" * 3_000_000)
    site.endpoint("slow", "/ok")
    heir = site.worker(*QUICK)
    site.wait_for_all(heir)
    assert heir.stop().code == 0
    site.check()
    received = [len(one.body) for one in site.receiver.journal if one.path == "/ok"]
    assert sum(received) > 5 * 3_000_000
    assert site.outcomes()["msg_5"] == [Outcome.DEAD]


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.long)])
def test_an_order_is_kept_over_kills_and_every_delivery_has_one_outcome(kills: int, site: Site) -> None:
    site.endpoint("good", "/ok", maxInFlight=8)
    site.subscription("ordered", "good", ordering="all")
    site.subscription("batch", "good", mode="batch", maxMessages=7, maxWaitMs=100)
    workers = [site.worker(*QUICK)]
    rng = random.Random(1)
    for _ in range(kills):
        site.send("ordered", "good", 30)
        site.send("batch", "good", 30)
        known = len(site.receiver.journal)
        until(lambda: len(site.receiver.journal) > known, workers[-1].err, WITHIN_S)  # noqa: B023
        time.sleep(rng.random() * 0.3)
        workers[-1].kill()
        workers.append(site.worker(*QUICK))
    site.wait_for_all(workers[-1])
    workers[-1].stop()
    site.check()
    ordered = {int(one.delivery_id[4:]) for one in site.deliveries if one.subscription_id == "ordered"}
    firsts: dict[int, None] = {}
    for one in site.receiver.journal:
        for number in numbers_in(one):
            if number in ordered:
                firsts.setdefault(number)
    assert list(firsts) == sorted(ordered)


@pytest.mark.long
def test_a_worker_that_stood_still_over_a_rebalance_begins_no_request(site: Site) -> None:
    site.endpoint("good", "/ok")
    site.subscription("single", "good")
    first = site.worker(*QUICK)
    site.send("single", "good", 5)
    site.wait_for_all(first)
    first.process.send_signal(signal.SIGSTOP)
    second = site.worker(*QUICK)
    site.send("single", "good", 50)
    site.wait_for_all(second)
    known = len(site.receiver.journal)
    first.process.send_signal(signal.SIGCONT)
    site.send("single", "good", 50)
    site.wait_for_all(second)
    site.check()
    assert len(site.receiver.journal) - known == 50


def test_commands_send_messages_again_once_also_after_another_worker_has_read_them(site: Site) -> None:
    site.endpoint("good", "/ok")
    site.subscription("single", "good")
    site.subscription("batch", "good", mode="batch", maxMessages=3, maxWaitMs=100)
    worker = site.worker()
    site.send("single", "good", 2)
    site.send("batch", "good", 3)
    site.wait_for_all(worker)
    known = len(site.receiver.journal)
    site.command(Redeliver("c1", "good", "acme", "ann", 1, ids=["msg_0", "msg_3"]))
    site.command(Redeliver("c2", "good", "other", "eve", 1, ids=["msg_1"]))
    site.command(SendTest("test_1", "good", "acme", "ann", 1))
    until(lambda: len(site.receiver.journal) >= known + 3, worker.err, WITHIN_S)
    until(lambda: sum(map(len, site.outcomes().values())) >= 5 + 1 + 3, worker.err, WITHIN_S)
    assert worker.stop().code == 0
    heir = site.worker()
    site.command(SendTest("test_2", "good", "acme", "ann", 1))
    until(lambda: len(site.receiver.journal) >= known + 4, heir.err, WITHIN_S)
    assert heir.stop().code == 0
    again = site.receiver.journal[known:]
    assert sorted(len(numbers_in(one)) for one in again if "test" not in one.headers["webhook-id"]) == [1, 3]
    assert [one.headers["webhook-id"] for one in again if "test" in one.headers["webhook-id"]] == ["test_1", "test_2"]
    assert {name: len(its) for name, its in site.outcomes().items()} == {
        "msg_0": 2, "msg_1": 1, "msg_2": 2, "msg_3": 2, "msg_4": 2,
    }  # fmt: skip


def test_a_topic_that_takes_no_large_records_is_refused_at_the_start(site: Site) -> None:
    site.cluster.create("delivery-pending", PARTITIONS, cleanup_policy="compact")
    worker = site.worker()
    assert worker.finish(WITHIN_S).code == 3
    assert "delivery-pending: expected max.message.bytes of at least 12582912, found 1048588" in worker.err()
    assert "Do: raise it." in worker.err()


def test_a_disabled_endpoint_is_told_as_an_event_and_resumed_by_a_command(site: Site) -> None:
    site.endpoint("gone", "/status/410")
    site.subscription("single", "gone")
    worker = site.worker()
    site.send("single", "gone", 1)
    until(lambda: kinds(site) == ["moneystate.endpoint.disabled"], worker.err, WITHIN_S)
    site.command(Resume("c1", "gone", "acme", "ann", 1))
    until(lambda: len(site.receiver.journal) == 2, worker.err, WITHIN_S)
    until(lambda: kinds(site)[1:2] == ["moneystate.endpoint.enabled"], worker.err, WITHIN_S)
    assert worker.stop().code == 0
    heir = site.worker()
    site.command(SendTest("test_1", "gone", "acme", "ann", 1))
    until(lambda: len(site.receiver.journal) == 3, heir.err, WITHIN_S)  # it has not resumed the endpoint again
    assert heir.stop().code == 0
    assert [one.headers["webhook-id"] for one in site.receiver.journal] == ["msg_0", "msg_0", "test_1"]


def kinds(site: Site) -> list[str]:
    """The types of the events about endpoints, of a single endpoint."""
    if site.cluster.prefix + EVENTS not in site.cluster.names():
        return []
    records, _ = read_log(site.cluster.bootstrap_servers, [EVENTS], site.cluster.prefix)
    return [value.decode() for record in records for name, value in record.headers if name == "ce_type" and value]
