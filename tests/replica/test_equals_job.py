"""A replica's state is the job's, for a random workload: at the end, and at pinned versions on the way."""

from __future__ import annotations

from collections.abc import Callable

from moneystate.engine.keys import is_engines
from moneystate.replica.model import Version
from moneystate.replica.view import ReplicaView
from moneystate.testing.simulation import Simulation
from services.enrichment import service
from tests.enrichment.harness import inputs, simulation
from tests.enrichment.jobs import Rules
from tests.kafka.logs import Cluster
from tests.replica.changelog import GROUPS, Replica, Writer
from tests.replica.test_store_model import paged
from tests.workloads.workload_log import workload_log

RULES = Rules(lookup=True)
BATCHES = 12
PINNED = (3, 6, 9)
MOST = 10_000
Entries = dict[bytes, bytes]


def entries(sim: Simulation) -> Entries:
    """The job's own entries."""
    there = [entry for state in sim.states for entry in state.entries.items()]
    return {key: value for key, value in there if not is_engines(key)}


def replicated(replica: Replica, version: Version) -> Entries:
    snapshot = replica.reader.at_version(version)
    return {entry.key: entry.value for entry in paged(lambda after: snapshot.entries(limit=100, after=after))}


def waiting(there: Entries) -> int:
    return sum(key.startswith((b"m\x07waiting", b"m\x0esession_lookup")) for key in there)


def test_a_replicas_state_is_the_jobs_at_the_end_and_at_pinned_versions(
    cluster: Cluster, replica_of: Callable[..., Replica]
) -> None:
    records, partitions = workload_log("--events", "3000", "--users", "150", "--partitions", "2", "--seed", "11")
    sim = simulation(RULES, partitions, key_groups=GROUPS)
    writer = Writer(cluster, partitions=2, outputs=3, counted=True, rules={"dedup_ttl_ms": RULES.dedup_ttl_ms})
    replica = replica_of()
    size = len(records) // BATCHES + 1
    wanted: dict[int, Entries] = {}
    for number in range(BATCHES):
        sim.batch(inputs(records[number * size : (number + 1) * size]))
        last = writer.batch(number, sim.changes, sim.watermark)
        sim.changes = []
        wanted[number] = entries(sim)
        if number == 0:
            replica.latest(last)
        if number == 7:
            replica.kill()
            replica.start()
    replica.latest(last)
    assert len(wanted[BATCHES - 1]) > 100
    for number in (*PINNED, BATCHES - 1):
        version = Version("one", number)
        assert replicated(replica, version) == wanted[number]
        pending = service.pending(ReplicaView(replica.reader.at_version(version)), MOST)
        assert len(pending) == waiting(wanted[number])
    assert waiting(wanted[BATCHES - 1]) > 0
