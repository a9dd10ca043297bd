"""What happens to brokers of a cluster, while a job is live: nothing may be lost or doubled, and the job goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from moneystate.engine import plan as plans
from moneystate.job.checkpoint import Checkpoint
from moneystate.kafka.offsets import high_watermarks
from tests.brokers.cluster import ThreeBrokers
from tests.job.harness import ENRICHED, JobProcess, Setup, in_parts, small_workload
from tests.reference import model

RULES = model.Rules(lookup=False)
AWAY_S = 8.0  # longer than a broker's session, so that the cluster notices
QUOTA_BYTES_S = 20_000  # the log of a fault is some 100 kB
FLAGS = ("--max-records-per-batch", "100", "--idle-timeout", "1d", "--quiet")


def leader_killed(brokers: ThreeBrokers, setup: Setup) -> None:
    """Others lead its partitions and the transactions' coordinator moves. Its place is taken by an empty one."""
    number = brokers.leader_of(setup.prefix + ENRICHED, 0)
    brokers.nodes[number].kill()
    time.sleep(AWAY_S)
    brokers.replace(number)


def rolling_restart(brokers: ThreeBrokers, setup: Setup) -> None:
    for node in brokers.nodes:
        node.stop()
        node.start()
        brokers.wait_until_whole()


def below_the_minimum(brokers: ThreeBrokers, setup: Setup) -> None:
    """Two are away: nothing can be written, and there is no controller."""
    for node in brokers.nodes[:2]:
        node.kill()
    time.sleep(AWAY_S)
    for node in brokers.nodes[:2]:
        node.start()


def quotas(brokers: ThreeBrokers, setup: Setup) -> None:
    brokers.limit(QUOTA_BYTES_S)
    time.sleep(AWAY_S)
    brokers.limit(0)


Fault = Callable[[ThreeBrokers, Setup], None]
FAULTS: Sequence[Fault] = (leader_killed, rolling_restart, below_the_minimum, quotas)


def run(brokers: ThreeBrokers, setup: Setup, faults: Sequence[Fault], events: int) -> None:
    """Raises AssertionError if the job ends, or its output is not the model's."""
    setup.create_inputs()
    # a part of the log is sent before each fault, so that the fault meets batches
    first, *others = in_parts(small_workload("--events", str(events), "--flush-marker"), len(faults) + 1)
    setup.send(first)
    with setup.start(*FLAGS) as job:
        job.wait_for(lambda: has_read_all(setup), "the first part")
        for part, fault in zip(others, faults, strict=True):
            setup.send(part)
            fault(brokers, setup)
            brokers.wait_until_whole()
            job.wait_for(lambda: has_read_all(setup), f"the part of {fault.__name__}")
        _stop(job)
    setup.run("--until-caught-up", "--drain", "--json")
    setup.check_output(RULES, drain=True)


def _stop(job: JobProcess) -> None:
    done = job.stop()
    assert done.code == 0, done.err


def has_read_all(setup: Setup) -> bool:
    checkpoint = Checkpoint(str(setup.checkpoint))
    last = checkpoint.last_committed()
    if last < 0:
        return False
    read = {place: planned.end for place, planned in plans.from_offset(checkpoint.offset(last)).partitions.items()}
    places = [(setup.prefix + topic, number) for topic in model.TIMED_TOPICS for number in range(setup.partitions)]
    ends = high_watermarks(setup.admin(), places)
    return all(read.get((topic.removeprefix(setup.prefix), number)) == end for (topic, number), end in ends.items())
