"""`python -m tests.chaos`: see --help."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moneystate.devbroker import DevBroker
from tests.brokers import faults as broker_faults
from tests.brokers.cluster import ThreeBrokers
from tests.chaos import deliveries, hour, lookups, orders, schedules, stores
from tests.job.harness import Setup, small_workload
from tests.job.test_crash import FLAGS, RULES, kill_at_each
from tests.job.test_standalone import DECOMMISSION, DYNAMIC, kill_executors

KILL_WITHIN_S = 25.0  # from the start of Spark to past the first batches
MAX_KILLS = 5
EXECUTORS_ENDS = (
    ("a fixed number", (), signal.SIGKILL),
    ("dynamic allocation", DYNAMIC, signal.SIGKILL),
    ("decommissioning", DECOMMISSION, signal.SIGPWR),  # as the cluster manager announces it
)


def main() -> None:
    if sys.argv[1:2] in (["schedules"], ["hour"]):
        {"schedules": schedules, "hour": hour}[sys.argv[1]].main(sys.argv[2:])
        return
    p = argparse.ArgumentParser(
        description="Kill the job at each step of a batch, then at random times; its output is held to the model. Or "
        "the lookup worker, and take its service away. Or the stock ledger, while many order from it. Or "
        "Spark's executors, on three machines. Or brokers of three. Or disturb the store of the checkpoint. Or kill "
        "the router and the workers of deliveries.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument(
        "what",
        nargs="?",
        choices=PROGRAMS,
        default="job",
        help="lookups: outage, kills, replay",
    )
    p.add_argument("--minutes", type=float, default=10, help="of the job's random kills")
    p.add_argument("--outage", type=float, default=120, help="seconds that the session service is away")
    p.add_argument("--orders", type=int, default=10_000, help="of 8 producers, for 100 skus")
    p.add_argument("--kills", type=int, default=6, help="of the stock ledger, of executors, or faults of deliveries")
    p.add_argument("--faults", type=int, default=10, help="of the store")
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the times of the kills")
    a = p.parse_args()
    print(f"seed {a.seed}", flush=True)
    PROGRAMS[a.what](a)


def against_job(a: argparse.Namespace) -> None:
    until = time.monotonic() + a.minutes * 60
    with _broker() as (broker, folder):
        kill_at_each(new_setup(broker, folder, "steps"))
        print("each step: held", flush=True)
        rng, n = random.Random(a.seed), 0
        while time.monotonic() < until:
            n += 1
            kills = kill_at_random(new_setup(broker, folder, f"random-{n}"), rng)
            print(f"random {n}, {kills} kills: held", flush=True)


def against_lookups(a: argparse.Namespace) -> None:
    with _broker() as (broker, folder):
        lookups.all_of_it(broker, folder, a.seed, a.outage)


def against_orders(a: argparse.Namespace) -> None:
    with _broker() as (broker, folder):
        orders.all_of_it(broker, folder, a.seed, a.orders, a.kills)


def against_executors(a: argparse.Namespace) -> None:
    with _broker() as (broker, folder):
        for name, conf, by in EXECUTORS_ENDS:
            setup = new_setup(broker, folder, name.replace(" ", "-"))
            kill_executors(setup, a.kills, a.seed, conf, cores=(1, 2, 1), records=100, by=by)
            print(f"executors, {name}, {a.kills} times {by.name}: held", flush=True)


def against_stores(a: argparse.Namespace) -> None:
    with _broker() as (broker, folder):
        stores.all_of_it(broker, folder, a.seed, a.faults)


def against_brokers(a: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, ThreeBrokers(Path(folder) / "brokers") as brokers:
        broker_faults.run(brokers, new_setup(brokers, Path(folder), "job"), broker_faults.FAULTS, 3_000)
        print(f"{', '.join(fault.__name__ for fault in broker_faults.FAULTS)}: held", flush=True)


def against_deliveries(a: argparse.Namespace) -> None:
    with _broker() as (broker, folder):
        deliveries.run(broker, folder, a.seed, a.kills)


PROGRAMS = {
    "job": against_job,
    "lookups": against_lookups,
    "orders": against_orders,
    "executors": against_executors,
    "brokers": against_brokers,
    "stores": against_stores,
    "deliveries": against_deliveries,
}


@contextmanager
def _broker() -> Iterator[tuple[DevBroker, Path]]:
    """And a folder beside it."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, DevBroker(Path(folder) / "broker") as broker:
        yield broker, Path(folder)


def new_setup(broker: DevBroker | ThreeBrokers, folder: Path, name: str) -> Setup:
    setup = Setup(broker.bootstrap_servers, f"{name}-", folder / name)
    setup.folder.mkdir()
    return setup


def kill_at_random(setup: Setup, rng: random.Random) -> int:
    """Up to five kills, fewer where a run comes to its end before; how many there were."""
    setup.create_inputs()
    setup.send(small_workload("--events", "1200", "--flush-marker"))
    kills = 0
    while kills < MAX_KILLS and _is_killed(setup, rng.uniform(0, KILL_WITHIN_S)):
        kills += 1
    if kills == MAX_KILLS:
        setup.run(*FLAGS)
    setup.check_output(RULES, drain=True)
    return kills


def _is_killed(setup: Setup, after_s: float) -> bool:
    """False where the run ended before, which it has to do well."""
    with setup.start(*FLAGS) as job:
        try:
            code = job.process.wait(after_s)
        except subprocess.TimeoutExpired:
            return True  # leaving the block kills it
    assert code == 0, job.err()
    return False


if __name__ == "__main__":
    main()
