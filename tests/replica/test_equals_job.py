"""A replica's state is the job's, for a random workload: at the end, and at pinned versions on the way."""

from __future__ import annotations

from collections.abc import Callable

from moneystate.replica import rows
from moneystate.replica.model import Version
from moneystate.testing.simulation import Simulation
from services.enrichment.replica import decode
from services.enrichment.replica.model import UserView
from services.enrichment.replica.replica_model import REPLICA
from tests.enrichment.by_hand import inputs, simulation
from tests.kafka.logs import Cluster
from tests.reference.model import Rules
from tests.replica.changelog import GROUPS, Replica, Writer
from tests.replica.states import entry_of
from tests.workloads.workload_log import workload_log

RULES = Rules()
BATCHES = 12
PINNED = (3, 6, 9)


def views(sim: Simulation) -> dict[str, UserView]:
    """Returns the views of all users, from the job's own entries."""
    there = {
        entry_of(key)[1]: value
        for state in sim.states
        for key, value in state.entries.items()
        if REPLICA.split(key) is not None
    }
    users = {rows.split_entry(entry)[0] for entry in there}
    made = {user.decode(): decode.user_view(user, there.get, sim.watermark, RULES.dedup_ttl_ms) for user in users}
    return {user: view for user, view in made.items() if view is not None}


def all_users(replica: Replica, version: Version) -> dict[str, UserView]:
    views: dict[str, UserView] = {}
    after = None
    while True:
        page = replica.reads.at_version(version).users(limit=100, after=after)
        views.update((view.user_id, view) for view in page.items)
        after = page.after
        if after is None:
            return views


def test_a_replicas_state_is_the_jobs_at_the_end_and_at_pinned_versions(
    cluster: Cluster, replica_of: Callable[..., Replica]
) -> None:
    records, partitions = workload_log("--events", "3000", "--users", "150", "--partitions", "2", "--seed", "11")
    sim = simulation(RULES, partitions, key_groups=GROUPS)
    rules = {"dedup_ttl_ms": RULES.dedup_ttl_ms}
    writer = Writer(cluster, partitions=2, outputs=3, counted=True, rules=rules)
    replica = replica_of()
    size = len(records) // BATCHES + 1
    wanted: dict[int, dict[str, UserView]] = {}
    for number in range(BATCHES):
        sim.batch(inputs(records[number * size : (number + 1) * size]))
        last = writer.batch(number, sim.changes, sim.watermark)
        sim.changes = []
        wanted[number] = views(sim)
        if number == 0:
            replica.latest(last)
        if number == 7:
            replica.kill()
            replica.start()
    replica.latest(last)
    assert len(wanted[BATCHES - 1]) > 100
    for number in (*PINNED, BATCHES - 1):
        assert all_users(replica, Version("one", number)) == wanted[number]
    pending = [p for v in wanted[BATCHES - 1].values() for p in (*v.waiting, *v.looking_up)]
    assert len(replica.reads.latest().pending(limit=10_000, after=None).items) == len(pending)
