"""`python -m tests.bench replicas`: what a new replica costs, from the whole changelog and from a savepoint.

The changelog has each user's state several times, as between two compactions. Processor time is the follower's, until
the newest version can be read.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from moneystate.devbroker import DevBroker
from moneystate.engine.keygroup import key_group_of
from moneystate.replica.follower import OpenSaved
from moneystate.replica.model import Version
from moneystate.savepoint.format import begin, finish, write_state
from moneystate.savepoint.manifest import EXPORT, Manifest
from moneystate.serving.savepoint import saved_state
from state_tools.changelog_position import changelog_position
from tests.kafka.logs import Cluster
from tests.replica.changelog import GROUPS, Replica, Writer
from tests.replica.states import State, entries
from tests.waiting import until

WITHIN_S = 1800.0
USERS_A_BATCH = 20_000
MONEY = 4  # ids of money that a user has
Pairs = list[tuple[bytes, bytes]]


class Cost(NamedTuple):
    """The cost of one new replica."""

    name: str
    cpu_s: float
    wall_s: float
    resident_mb: float


def fill(cluster: Cluster, users: int, times: int) -> tuple[Writer, Version, dict[int, Pairs]]:
    """The changelog; gives its last version, and the state by key group."""
    writer, state, number = Writer(cluster, 4, 4, counted=True, rules={}), defaultdict[int, Pairs](list), 0
    version = Version("one", 0)
    for turn in range(times):
        for first in range(0, users, USERS_A_BATCH):
            names = [f"user-{n:09d}".encode() for n in range(first, min(first + USERS_A_BATCH, users))]
            made = {user: entries(user, state_of(turn)) for user in names}
            version = writer.batch(number, [pair for pairs in made.values() for pair in pairs.items()], number)
            number += 1
            if turn == times - 1:
                for user, pairs in made.items():
                    state[key_group_of(user, GROUPS)] += pairs.items()
    return writer, version, state


def state_of(turn: int) -> State:
    """With ids that do not compress, as in production."""
    return State(country="ESFRPT"[turn % 3 * 2 :][:2], seen=tuple((str(uuid.uuid4()), n) for n in range(MONEY)))


def savepoint(servers: str, topic: str, version: Version, state: dict[int, Pairs], out: Path) -> str:
    folder = begin(out)
    files = [write_state(folder, group, sorted(state[group])) for group in range(GROUPS)]
    about: dict[str, Any] = {"job": "", "schemas": [], "rules": {}, "partitions": 4, "plan": None, "counts": {}}
    about |= {"watermark": version.batch, "fingerprint": "", "key_groups": GROUPS, "origins": [version.epoch]}
    position = changelog_position(servers, {}, topic, GROUPS, version)
    finish(out, Manifest(EXPORT, "", state=files, origin_batch=version.batch + 1, changelog=position, **about))
    return str(out)


def load(cluster: Cluster, name: str, version: Version, open_saved: OpenSaved | None) -> Cost:
    began = time.monotonic()
    replica = Replica(cluster, open_saved)
    try:
        assert replica.process is not None
        process = psutil.Process(replica.process.pid)
        until(lambda: replica.reader.newest() == version, lambda: name, WITHIN_S)
        used, memory = process.cpu_times(), process.memory_info()
        return Cost(name, used.user + used.system, time.monotonic() - began, memory.rss / 1e6)
    finally:
        replica.close()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=3, help="how often the changelog has each user")
    parser.add_argument("--runs", type=int, default=2)
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with DevBroker(folder / "broker", heap="1g") as broker:
            cluster = Cluster(broker.bootstrap_servers, "replicas-")
            writer, version, state = fill(cluster, a.users, a.times)
            place = savepoint(broker.bootstrap_servers, writer.topic, version, state, folder / "savepoint")
            costs = []
            for _ in range(a.runs):  # by turns
                costs.append(load(cluster, "changelog", version, None))
                costs.append(load(cluster, "savepoint", version, partial(saved_state, place)))
    show(costs, sum(len(key) + len(value) for pairs in state.values() for key, value in pairs))


def show(costs: list[Cost], size: int) -> None:
    table = Table("from", "CPU s", "CPU s for a GB of state", "wall s", "resident MB")
    for cost in costs:
        figures = (
            f"{cost.cpu_s:.1f}",
            f"{cost.cpu_s / (size / 1e9):,.0f}",
            f"{cost.wall_s:.1f}",
            f"{cost.resident_mb:,.0f}",
        )
        table.add_row(cost.name, *figures)
    console = Console(width=100)
    console.print(table)
    best = {name: min(cost.cpu_s for cost in costs if cost.name == name) for name in ("changelog", "savepoint")}
    ratio = best["changelog"] / best["savepoint"]
    console.print(f"{size / 1e6:,.1f} MB of keys and values; changelog / savepoint: {ratio:.2f}")
