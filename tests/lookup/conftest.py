from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from tests.job.harness import Setup
from tests.kafka.logs import Cluster
from tests.lookup.harness import Lookups


@pytest.fixture
def lookups(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Lookups:
    return Lookups(Cluster(broker.bootstrap_servers, topic_prefix), tmp_path)


@pytest.fixture
def setup(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Setup:
    folder = tmp_path / "job"
    folder.mkdir()
    return Setup(broker.bootstrap_servers, topic_prefix, folder)
