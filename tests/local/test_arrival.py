"""A local job with inputs in arrival order, on a log in memory that has a clock as a broker has."""

from __future__ import annotations

from pathlib import Path

from tests.job.harness import WARM, Finished
from tests.job.test_arrival import Parcels
from tests.job.warm import Warm
from tests.kafka.logs import Cluster
from tests.local.in_memory import Running, good


class LocalParcels(Parcels):
    def command(self, *arguments: object, warm: Warm = WARM) -> Finished:
        return good(arguments)

    def running(self) -> Running:
        return Running(self.arguments("--local"))


def test_a_killed_job_goes_on_and_a_replay_agrees(memory_cluster: Cluster, tmp_path: Path) -> None:
    parcels = LocalParcels(memory_cluster.bootstrap_servers, memory_cluster.prefix, tmp_path)
    first = [("a", "scan 1", 0), ("a", "gone", 1_500)]
    with parcels.running() as job:
        job.wait_for(parcels.has_run, "a batch")
        parcels.scan("a", 1)
        job.wait_for(lambda: parcels.told() == first, "the timer has run")
        job.kill()
    parcels.scan("b", 2)
    with parcels.running() as job:
        both = [*first, ("b", "scan 2", 0), ("b", "gone", 1_500)]
        job.wait_for(lambda: parcels.told() == both, "both have gone")
        assert job.stop().code == 0
    assert parcels.agrees()
