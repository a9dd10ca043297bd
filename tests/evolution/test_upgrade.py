"""`checkpoint upgrade` on a checkpoint that an earlier release of a service has left, killed in between."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from moneystate.engine.avro import HEADER_BYTES
from moneystate.engine.plan import STATE_VERSION
from moneystate.runtime.plans import plan_of
from moneystate.runtime.state_model import ServiceState
from tests.evolution.module_file import ModuleFile
from tests.evolution.sales import BATCHES, IN_CENTS, IN_EUROS, MODULE, RECORDS, SHOPS, Sales, rows
from tests.job.harness import Finished, JobProcess, finished
from tests.job.warm import Warm
from tests.kafka.logs import Cluster
from tests.local.in_memory import command, killed_at

REFERENCE = f"{MODULE}:service"
Make = Callable[[str], ModuleFile]


@pytest.fixture
def sales(module_file: Make, memory_cluster: Cluster, tmp_path: Path) -> Sales:
    """On a log in memory, without Spark; the earlier release has run."""
    made = Sales(module_file(MODULE), memory_cluster, tmp_path, command)
    begin(made, "--local")
    return made


def begin(sales: Sales, *flags: str) -> None:
    for topic in ("sold", "sums"):
        sales.cluster.create(topic, 2)
    sales.release(IN_EUROS)
    sales.sell()
    good(sales.run(*flags))
    sales.check_sums()


def good(done: Finished) -> Finished:
    assert done.code == 0, done.err
    return done


def headers(entries: dict[bytes, bytes]) -> set[bytes]:
    return {entry[:HEADER_BYTES] for entry in entries.values()}


def check_upgrade(sales: Sales, kill_at: Callable[[str], None], *flags: str) -> None:
    before = sales.changelog()
    first = sales.checkpoint.last_committed() + 1
    earlier = headers(before)
    sales.release(IN_CENTS)
    kill_at(f"sunk@{first + 1}")
    assert sales.checkpoint.last_committed() == first
    current = {plan_of(REFERENCE).kinds["total"].header}
    assert headers(sales.changelog()) == earlier | current

    done = good(sales.upgrade()).totals
    assert (done["done"], done["shares"]) == (BATCHES, BATCHES)
    assert sales.checkpoint.last_committed() == first + BATCHES  # no share twice, and the closing batch
    up = ServiceState(REFERENCE).versions.up
    assert sales.changelog() == {key: up[value[:HEADER_BYTES]](value) for key, value in before.items()}

    sales.sell()
    assert good(sales.run(*flags)).totals["records"] == RECORDS  # no replay
    sales.check_sums()


def test_an_upgrade_goes_on_after_a_kill_and_the_job_after_the_upgrade(sales: Sales) -> None:
    def kill_at(step: str) -> None:
        with killed_at(step):
            sales.upgrade()

    check_upgrade(sales, kill_at, "--local")


def test_a_checkpoint_of_an_earlier_release_goes_on_with_the_right_output(sales: Sales) -> None:
    sales.release(IN_CENTS)
    sales.sell()
    good(sales.run("--local"))
    sales.check_sums()
    assert headers(sales.changelog()) == {plan_of(REFERENCE).kinds["total"].header}


def test_an_earlier_release_does_not_start_on_the_state_of_a_later_one(sales: Sales, tmp_path: Path) -> None:
    released = sales.module.file.parent / "avro"
    shutil.copytree(released, tmp_path / "first")
    sales.release(IN_CENTS)
    good(sales.upgrade())
    shutil.rmtree(released)
    shutil.copytree(tmp_path / "first", released)
    sales.release(IN_EUROS)
    sales.sell()
    refused = sales.run("--local")
    assert refused.code == 4
    assert "found that of a program with 2" in refused.err


def test_a_job_is_refused_over_state_of_a_newer_program(sales: Sales) -> None:
    last = Path(sales.checkpoint.root) / "offsets" / str(sales.checkpoint.last_planned())
    *spark_lines, offset = last.read_text().splitlines()
    newer = {**json.loads(offset), "stateVersion": STATE_VERSION + 1}
    last.write_text("\n".join([*spark_lines, json.dumps(newer)]))
    refused = sales.run("--local")
    assert refused.code == 4
    assert f"state of version {STATE_VERSION + 1}, this program knows {STATE_VERSION}" in refused.err
    assert sales.upgrade().code == 4


def test_a_planned_batch_of_the_job_has_to_be_finished_first(sales: Sales) -> None:
    offsets = Path(sales.checkpoint.root) / "offsets"
    last = sales.checkpoint.last_planned()
    (offsets / str(last + 1)).write_text((offsets / str(last)).read_text())
    done = sales.upgrade()
    assert (done.code, "--finish-batch" in done.err) == (4, True)


# On Spark


class OnSpark:
    """A process for each release, because a process imports the service once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warm = Warm()

    def __call__(self, arguments: Iterable[object]) -> Finished:
        return finished(arguments, self.folder, self.warm)

    def end_release(self) -> None:
        self.warm.close()
        self.warm = Warm()


@pytest.fixture
def on_spark(tmp_path: Path) -> Iterator[OnSpark]:
    made = OnSpark(tmp_path)
    yield made
    made.warm.close()


def test_a_dry_run_counts_by_version(sales: Sales, on_spark: OnSpark) -> None:
    sales.release(IN_CENTS)
    sales.command = on_spark
    total = {"record": "Total", "entries": SHOPS}
    assert total_rows(sales) == [{**total, "version": 1, "rewrite": SHOPS}]
    sales.command = command
    good(sales.upgrade())
    sales.command = on_spark
    assert total_rows(sales) == [{**total, "version": 2, "rewrite": 0}]


def total_rows(sales: Sales) -> list[dict[str, object]]:
    return [row for row in rows(good(sales.upgrade("--dry-run"))) if row["record"] == "Total"]


@pytest.mark.long
def test_an_upgrade_on_spark_goes_on_after_a_kill_and_the_job_after_the_upgrade(
    module_file: Make, broker: DevBroker, topic_prefix: str, tmp_path: Path, on_spark: OnSpark
) -> None:
    cluster = Cluster(broker.bootstrap_servers, topic_prefix)
    sales = Sales(module_file(MODULE), cluster, tmp_path, on_spark)
    begin(sales)
    on_spark.end_release()

    def kill_at(step: str) -> None:
        paused = tmp_path / "paused"
        env = {"MONEYSTATE_PAUSE_AT": step, "MONEYSTATE_PAUSE_FILE": str(paused)}
        with JobProcess(sales.upgrading(), tmp_path, env) as process:
            process.wait_for(paused.exists, step)

    check_upgrade(sales, kill_at)
