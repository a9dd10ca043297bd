"""A job with inputs in arrival order: only a real broker has a clock, and only a live run has time that goes on without
records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

from moneystate.devbroker import DevBroker
from tests.job.harness import JobProcess, moneystate
from tests.job.warm import Warm
from tests.kafka.logs import Cluster
from tests.reference.kafka_log import read_log

SERVICE = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Scanned:
    parcel: str
    number: int


@dataclass(frozen=True)
class Seen:
    parcel: str
    what: str
    after_ms: int  # since the scan before


@dataclass
class Parcel:
    at: int = 0


service = ms.Service("parcels")
scans = service.input("scans", Scanned, key="parcel", time=ms.arrival, format="json")
seen = service.output("seen", Seen, key="parcel", format="json")
parcel = service.value("parcel", Parcel)
gone = service.timer("gone")


@service.on(scans, parcel)
def take(ctx: ms.Context[None], e: Scanned, parcel: Parcel) -> None:
    ctx.emit(seen, Seen(ctx.key, f"scan {e.number}", 0))
    parcel.at = ctx.now
    ctx.at(gone, ctx.now + 1_500)


@service.on(gone, parcel)
def is_gone(ctx: ms.Context[None], parcel: Parcel) -> None:
    ctx.emit(seen, Seen(ctx.key, "gone", ctx.now - parcel.at))
"""


class Parcels:
    """The service on one broker. Three of the four partitions never get a record, and nobody writes heartbeats."""

    def __init__(self, bootstrap_servers: str, prefix: str, folder: Path) -> None:
        self.cluster = Cluster(bootstrap_servers, prefix)
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        # the process that runs commands keeps a module by its name
        module = folder / f"parcels_{prefix.strip('-')}.py"
        module.write_text(SERVICE)
        self.service = f"{module}:service"
        moneystate(["schemas", "release", self.service], folder)

    def start(self, *more: str) -> JobProcess:
        command = [
            *("run", self.service, "--topic-prefix", self.cluster.prefix, "--checkpoint", str(self.checkpoint)),
            *("--bootstrap-servers", self.cluster.bootstrap_servers, "--topic-partitions", "4"),
            *("--partitions", "2", "--key-groups", "4", "--quiet", *more),
        ]
        return JobProcess(command, self.folder)

    def has_run(self) -> bool:
        return (self.checkpoint / "commits" / "0").exists()

    def scan(self, parcel: str, number: int) -> None:
        value = json.dumps({"type": "Scanned", "parcel": parcel, "number": number}).encode()
        self.cluster.send(self.cluster.prefix + "scans", [value])

    def told(self) -> list[tuple[str, str, int]]:
        records, _ = read_log(self.cluster.bootstrap_servers, ["seen"], self.cluster.prefix)
        seen = [json.loads(record.value or b"") for record in records]
        return [(one["parcel"], one["what"], int(one["afterMs"])) for one in seen]

    def agrees(self) -> bool:
        """What `verify-replay` says."""
        replay = ["verify-replay", "--checkpoint", self.checkpoint, "--service", self.service, "--json", "--quiet"]
        servers = ["--bootstrap-servers", self.cluster.bootstrap_servers]
        warm = Warm()  # of its own, because the service is a file of its own
        try:
            return bool(moneystate([*replay, *servers], self.folder, warm).totals["agrees"])
        finally:
            warm.close()


def test_a_timer_runs_by_the_brokers_clock(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> None:
    parcels = Parcels(broker.bootstrap_servers, topic_prefix, tmp_path)
    with parcels.start("--local") as job:
        job.wait_for(parcels.has_run, "a batch")
        check_topics(parcels.cluster, ["scans", "parcels-clock"])
        parcels.scan("a", 1)
        job.wait_for(lambda: parcels.told() == [("a", "scan 1", 0), ("a", "gone", 1_500)], "the timer has run")
        assert job.stop().code == 0


@pytest.mark.long
def test_a_killed_job_goes_on_and_a_replay_agrees(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> None:
    parcels = Parcels(broker.bootstrap_servers, topic_prefix, tmp_path)
    first = [("a", "scan 1", 0), ("a", "gone", 1_500)]
    with parcels.start() as job:
        job.wait_for(parcels.has_run, "a batch")
        parcels.scan("a", 1)
        job.wait_for(lambda: parcels.told() == first, "the timer has run")
        job.kill()
    parcels.scan("b", 2)
    with parcels.start() as job:
        both = [*first, ("b", "scan 2", 0), ("b", "gone", 1_500)]
        job.wait_for(lambda: parcels.told() == both, "both have gone")
        assert job.stop().code == 0
    assert parcels.agrees()


def check_topics(cluster: Cluster, names: Iterable[str]) -> None:
    """A job creates them with the broker's timestamps."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, cluster.prefix + name) for name in names]
    for future in cluster.admin.describe_configs(resources).values():
        settings: dict[str, Any] = future.result()
        assert settings["message.timestamp.type"].value == "LogAppendTime"
