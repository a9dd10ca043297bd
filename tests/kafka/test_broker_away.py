"""A broker that is restarted does not end planning."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from moneystate.engine import plan as plans
from tests.kafka.logs import Cluster
from tests.kafka.test_planner import NAMES, Planned, beats
from tests.reference.model import WALLET

TIMEOUT_S = 1.0  # no broker is up again within that


@pytest.fixture(autouse=True)
def clients_end() -> Iterator[None]:
    """Ends the clients of a broker that is gone. They would write lines to stderr in the next tests."""
    yield
    gc.collect()


def test_planning_waits_for_a_broker_that_is_restarted(tmp_path: Path) -> None:
    with DevBroker(tmp_path / "broker") as broker:
        cluster = Cluster(broker.bootstrap_servers, "away-")
        for name in NAMES:
            cluster.create(name)
        planned = Planned(cluster, tmp_path)
        cluster.send(cluster.prefix + WALLET, beats([0, 1]))
        broker.kill()
        starting = threading.Thread(target=broker.start)
        starting.start()
        try:
            assert planned.next() == {f"{WALLET}/0": 2}
        finally:
            starting.join()


def test_after_a_broker_was_away_for_longer_than_the_timeout_no_partition_is_idle(tmp_path: Path) -> None:
    """Nobody could see what the partitions had to say."""
    with DevBroker(tmp_path / "broker") as broker:
        cluster = Cluster(broker.bootstrap_servers, "away-")
        for name in NAMES:
            cluster.create(name)
        cluster.send(cluster.prefix + WALLET, beats([0, 1]))
        planned = Planned(cluster, tmp_path, idle_timeout_s=TIMEOUT_S)
        planned.next()
        killed = time.monotonic()
        broker.kill()
        starting = threading.Thread(target=broker.start)
        starting.start()
        try:
            planned.next()
        finally:
            starting.join()
        assert time.monotonic() - killed > TIMEOUT_S
        assert plans.IDLE not in {p.state for p in planned.plan.partitions.values()}
