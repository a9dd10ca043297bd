"""A drain of timers that set themselves again: its end goes from the flag through the plan in the checkpoint to the
batches, and a restart finds it there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moneystate.job.checkpoint import Checkpoint
from moneystate.records.codec import Codec
from moneystate.records.iso_time import from_ms
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench
from tests.api.services import periodic
from tests.api.services.periodic import HOUR, Reading, reports
from tests.job.harness import Finished
from tests.kafka.logs import Cluster
from tests.local.in_memory import command, good
from tests.log_lines import kinds

START = 1_700_006_400_000  # a full hour
READINGS = [Reading("m", START), Reading("n", START + HOUR // 2, wait_ms=3 * HOUR)]
LATER = 30  # hours: of a record after the declared end
DRAINED = 4


class Released(NamedTuple):
    """The service, in a file of its own with its schemas."""

    folder: Path
    service: str


class Meters:
    """The service and its topics on one broker."""

    def __init__(self, cluster: Cluster, released: Released) -> None:
        self.cluster = cluster
        self.folder, self.service = released
        self.plan = Plan(periodic.service)
        cluster.create("readings", 2)
        self.send(*READINGS)

    def send(self, *readings: Reading, partition: int = 0) -> None:
        codec: Codec = next(i.codec for its in self.plan.inputs.values() for i in its.values())
        self.cluster.send(self.cluster.prefix + "readings", [codec.encode(reading) for reading in readings], partition)

    def drain(self, checkpoint: str, until_hours: int | None = None) -> Finished:
        until = () if until_hours is None else ("--drain-until", from_ms(START + until_hours * HOUR))
        arguments = (
            *(
                "run",
                "--local",
                self.service,
                "--checkpoint",
                self.folder / checkpoint,
                "--topic-prefix",
                self.cluster.prefix,
            ),
            *("--bootstrap-servers", self.cluster.bootstrap_servers, "--key-groups", 2),
            *(
                "--partitions",
                1,
                "--topic-partitions",
                1,
                "--source-tasks",
                1,
                "--bound",
                "1s",
                "--until-caught-up",
                "--drain",
                "--json",
            ),
            *until,
        )
        return command(arguments)

    def reports(self) -> list[Any]:
        codec = self.plan.outputs[reports].codec
        return [codec.decode(record.value) for record in self.cluster.read("reports") if record.value]


def expected(*readings: Reading, until_hours: int | None = None) -> list[Any]:
    bench = Bench(periodic.service, bound_ms=1_000)
    bench.send(*readings)
    bench.end(until_ms=None if until_hours is None else START + until_hours * HOUR)
    return bench.out(reports)


def in_order(shown: list[Any]) -> list[tuple[int, str, str]]:
    return sorted((report.at, report.meter, report.what) for report in shown)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Released:
    folder = tmp_path_factory.mktemp("periodic")
    service = f"{shutil.copy(periodic.__file__, folder / 'drained_periodic.py')}:service"
    good(("schemas", "release", service))
    return Released(folder, service)


@pytest.fixture
def meters(memory_cluster: Cluster, released: Released) -> Meters:
    return Meters(memory_cluster, released)


def test_without_a_declared_time_it_ends_a_few_timers_after_the_last_record(meters: Meters) -> None:
    """The other partition has had no record."""
    done = meters.drain("whole")
    assert done.code == 0, done.err
    assert in_order(meters.reports()) == in_order(expected(*READINGS))
    assert (done.totals["drained"], done.totals["watermark_ms"]) == (True, None)


def test_a_time_that_has_passed_runs_nothing(meters: Meters) -> None:
    for partition in (0, 1):
        meters.send(Reading("m", START + LATER * HOUR), partition=partition)
    done = meters.drain("passed", 1)
    assert done.code == 0, done.err
    assert done.totals["watermark_ms"] == START + LATER * HOUR - 1_000
    assert "the watermark had already passed this time" in done.err
    assert all(report.at < START + LATER * HOUR - 1_000 for report in meters.reports())


def test_a_drain_ends_at_the_declared_time(meters: Meters) -> None:
    """It continues up to a later time, and up to no other."""
    meters.send(Reading("m", START + LATER * HOUR), partition=1)
    done = meters.drain("until", 10)
    assert done.code == 0, done.err
    assert in_order(meters.reports()) == in_order(expected(*READINGS, until_hours=10))
    shown = {name: done.totals[name] for name in ("drained", "watermark_ms", "buffered")}
    assert shown == {"drained": True, "watermark_ms": START + 10 * HOUR + 1, "buffered": 1}
    assert "later events wait" in done.err
    assert Checkpoint(str(meters.folder / "until")).offset(0)["version"] == 1

    refused = meters.drain("until", 10)
    assert (refused.code, kinds(refused.err)) == (DRAINED, ["error:"]), refused.err
    assert "or a later --drain-until" in refused.err

    meters.send(Reading("m", START + 31 * HOUR))  # a drained checkpoint does not read it
    done = meters.drain("until", 40)
    assert done.code == 0, done.err
    whole = expected(*READINGS, Reading("m", START + LATER * HOUR), until_hours=40)
    assert in_order(meters.reports()) == in_order(whole)
    assert done.totals["records"] == 0
