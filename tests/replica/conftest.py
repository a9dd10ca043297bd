from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kafka.logs import Cluster
from tests.replica.changelog import Replica


@pytest.fixture
def replica_of(cluster: Cluster) -> Iterator[Callable[..., Replica]]:
    """Makes replicas, which end with the test."""
    made: list[Replica] = []

    def make(**options: Any) -> Replica:
        made.append(Replica(cluster, **options))
        return made[-1]

    yield make
    for replica in made:
        replica.close()
