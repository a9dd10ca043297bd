"""What holds the watermark back, as a live job says it."""

from __future__ import annotations

from moneystate.engine import plan as plans
from moneystate.job.checkpoint import Checkpoint
from tests.job.harness import Setup
from tests.kafka.logs import Cluster
from tests.local.in_memory import InMemory
from tests.reference.builder import START_MS
from tests.reference.model import SESSION, USER, WALLET, encode


def states(setup: Setup) -> dict[str, str]:
    """Returns the state of the input topics' one partition, as the last finished batch has them."""
    checkpoint = Checkpoint(str(setup.checkpoint))
    last = checkpoint.last_committed()
    if last < 0:
        return {}
    plan = plans.from_offset(checkpoint.offset(last))
    return {topic: planned.state for (topic, _), planned in plan.partitions.items()}


def test_a_live_job_names_idle_partitions_and_the_one_that_holds_the_watermark_back(in_memory: InMemory) -> None:
    setup = in_memory
    setup.create_inputs(1)
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    producer = cluster.producer(**{"transactional.id": setup.prefix, "transaction.timeout.ms": 600_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(setup.prefix + WALLET, encode("Heartbeat", {"processedAt": START_MS}), partition=0)
    producer.flush(30)
    want = {WALLET: plans.EMPTY, USER: plans.IDLE, SESSION: plans.IDLE}
    with setup.running("--idle-timeout", "2s", "--json", "--quiet") as job:
        job.wait_for(lambda: want.items() <= states(setup).items(), "idle partitions")
        done = job.stop()
    producer.abort_transaction(30)
    assert done.code == 0, done.err
    assert done.totals["watermark_held_by"] == f"{WALLET}/0"
    assert done.totals["idle_partitions"] == [f"{USER}/0", f"{SESSION}/0"]
