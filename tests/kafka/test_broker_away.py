"""A broker that is restarted does not end planning."""

from __future__ import annotations

import threading
from pathlib import Path

from moneystate.devbroker import DevBroker
from tests.kafka.logs import Cluster
from tests.kafka.test_planner import NAMES, Planned, beats
from tests.reference.model import WALLET


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
