"""A job with inputs in arrival order, by the clock of a real broker. Kills and replays are in
`tests/local/test_arrival.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

from moneystate.devbroker import DevBroker
from tests.job.harness import WARM, Finished, JobProcess, moneystate
from tests.job.warm import Warm
from tests.kafka.logs import Cluster

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
        # a process that runs commands keeps a module by its name
        module = folder / f"parcels_{prefix.strip('-')}.py"
        module.write_text(SERVICE)
        self.service = f"{module}:service"
        self.command("schemas", "release", self.service)

    def command(self, *arguments: object, warm: Warm = WARM) -> Finished:
        return moneystate(arguments, self.folder, warm)

    def arguments(self, *more: str) -> list[str]:
        return [
            *("run", self.service, "--topic-prefix", self.cluster.prefix, "--checkpoint", str(self.checkpoint)),
            *("--bootstrap-servers", self.cluster.bootstrap_servers, "--topic-partitions", "4"),
            *("--partitions", "2", "--key-groups", "4", "--quiet", *more),
        ]

    def start(self, *more: str) -> JobProcess:
        return JobProcess(self.arguments(*more), self.folder)

    def has_run(self) -> bool:
        return (self.checkpoint / "commits" / "0").exists()

    def scan(self, parcel: str, number: int) -> None:
        value = json.dumps({"type": "Scanned", "parcel": parcel, "number": number}).encode()
        self.cluster.send(self.cluster.prefix + "scans", [value])

    def told(self) -> list[tuple[str, str, int]]:
        seen = [json.loads(record.value or b"") for record in self.cluster.read("seen")]
        return [(one["parcel"], one["what"], int(one["afterMs"])) for one in seen]

    def agrees(self) -> bool:
        """What `verify-replay` says."""
        replay = ("verify-replay", "--checkpoint", self.checkpoint, "--service", self.service, "--json", "--quiet")
        servers = ("--bootstrap-servers", self.cluster.bootstrap_servers)
        warm = Warm()  # of its own, because the service is a file of its own
        try:
            return bool(self.command(*replay, *servers, warm=warm).totals["agrees"])
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


def check_topics(cluster: Cluster, names: Iterable[str]) -> None:
    """A job creates them with the broker's timestamps."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, cluster.prefix + name) for name in names]
    for future in cluster.admin.describe_configs(resources).values():
        settings: dict[str, Any] = future.result()
        assert settings["message.timestamp.type"].value == "LogAppendTime"
