from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from moneystate.devbroker import DevBroker
from tests.deliver.interface.harness import Site, options, running
from tests.kafka.logs import Cluster


@pytest.fixture(scope="module")
def site(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Callers need no token."""
    cluster = Cluster(broker.bootstrap_servers, f"t{uuid.uuid4().hex[:12]}-")
    with running(cluster, options(cluster, tmp_path_factory.mktemp("interface"))) as its:
        yield its
