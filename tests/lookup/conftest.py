from __future__ import annotations

from pathlib import Path

import pytest

from services.devbroker import DevBroker
from tests.kafka.logs import Cluster
from tests.lookup.harness import Lookups


@pytest.fixture
def lookups(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Lookups:
    return Lookups(Cluster(broker.bootstrap_servers, topic_prefix), tmp_path)
