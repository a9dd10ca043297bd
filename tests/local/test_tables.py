"""A local job with tables, on a log in memory: what comes out is held to the model, by the log's timestamps."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.savepoint.format import Savepoint
from tests.job.harness import Finished
from tests.job.test_tables import PARTITIONS, Pricing, check_first_load, load, now_ms
from tests.kafka.logs import Cluster
from tests.local.in_memory import Running, command, good

QUIET = ("--idle-timeout", "1s")


class LocalPricing(Pricing):
    def start(self, *more: str) -> Running:
        return Running(self.flags(self.checkpoint, "--local", "--key-groups", "4", *QUIET, *more))

    def command(self, *arguments: object) -> Finished:
        return good(arguments)


@pytest.fixture
def shop(memory_cluster: Cluster, tmp_path: Path) -> LocalPricing:
    return LocalPricing(memory_cluster.bootstrap_servers, memory_cluster.prefix, tmp_path)


def test_other_inputs_wait_for_the_first_load(shop: LocalPricing) -> None:
    check_first_load(shop)


def test_killed_jobs_replays_and_other_key_groups_see_the_same_rows(shop: LocalPricing) -> None:
    with shop.start() as job:
        load(shop)
        shop.order(1, now_ms(), "a", "eve")
        shop.order(2, now_ms(), "b", "bob")
        job.wait_for(lambda: shop.has_priced(1, 2), "orders are priced")
        shop.rows("prices", [("b", None), ("c", {"sku": "c", "cents": 7})])
        shop.rows("limits", [("eve", {"most": 11})])
        job.kill()
    shop.rows("prices", [("a", {"sku": "a", "cents": 8})])
    for number, sku in enumerate("abc", 3):
        shop.order(number, now_ms(), sku, "eve")
    with shop.start() as job:
        job.wait_for(lambda: shop.has_priced(3, 4, 5), "the orders after the kill are priced")
        assert job.stop().code == 0
    shop.check()
    checkpoint = ("--checkpoint", shop.checkpoint, "--service", shop.service)
    servers = ("--bootstrap-servers", shop.cluster.bootstrap_servers)
    formats = ("--format", "orders=json", "--format", "priced=json")
    assert shop.command("verify-replay", *checkpoint, *servers, *formats, "--json", "--quiet").totals["agrees"]
    savepoint = shop.folder / "savepoint"
    shop.command("checkpoint", "export", *checkpoint, "--out", savepoint, "--key-groups", "7", "--quiet")
    bootstrapped = shop.command(
        *("bootstrap", "--local", "--from", "kafka", "--out", shop.folder / "bootstrapped"),
        *("--service", shop.service, *servers),
        *("--topic-prefix", shop.cluster.prefix, *formats, "--bound", "1s", "--like", shop.checkpoint),
        *("--key-groups", "5", "--partitions", "2", "--json", "--quiet"),
    ).totals  # fmt: skip
    assert bootstrapped["fingerprint"] == Savepoint(savepoint).manifest.fingerprint
    shop.order(6, now_ms(), "a", "bob")
    shop.order(7, now_ms(), "c", "eve")
    second = shop.flags(shop.folder / "second", "--key-groups", "7", "--initial-state", str(savepoint), "--quiet")
    with Running([*second, *QUIET, "--local"]) as job:
        job.wait_for(lambda: shop.has_priced(6, 7), "orders are priced by the rows of before")
        assert job.stop().code == 0
    shop.check()


def test_a_topic_that_loses_rows_is_refused(shop: LocalPricing) -> None:
    shop.cluster.delete(shop.cluster.prefix + "prices")
    shop.cluster.create("prices", PARTITIONS, message_timestamp_type="LogAppendTime", retention_ms="1000")
    done = command(shop.flags(shop.checkpoint, "--until-caught-up", "--local"))
    assert done.code != 0
    assert "prices: expected a table's topic with retention.ms=-1, found 1000" in done.err
