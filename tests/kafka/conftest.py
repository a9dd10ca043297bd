from __future__ import annotations

import pytest

from moneystate.devbroker import DevBroker
from tests.kafka.logs import Cluster


@pytest.fixture
def cluster(broker: DevBroker, topic_prefix: str) -> Cluster:
    return Cluster(broker.bootstrap_servers, topic_prefix)
