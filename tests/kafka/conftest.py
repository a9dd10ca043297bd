from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.local.memory_clients import memory_log
from tests.kafka.logs import Cluster


@pytest.fixture
def memory_cluster(topic_prefix: str) -> Iterator[Cluster]:
    with memory_log() as (_, address):
        yield Cluster(address, topic_prefix)
