"""One changelog and one server for most tests; those that need another server start it over a folder of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from services.devbroker import DevBroker
from services.query.client import Client
from tests.kafka.logs import Cluster
from tests.query.certificates import Pki
from tests.query.serving import Server
from tests.query.story import Story, tell


@pytest.fixture(scope="session")
def story(broker: DevBroker) -> Story:
    return tell(Cluster(broker.bootstrap_servers, f"q{uuid.uuid4().hex[:12]}-"))[1]


@pytest.fixture(scope="session")
def server(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Open on loopback, two workers, caught up; nobody changes its state."""
    data = tmp_path_factory.mktemp("replica")
    with Server(story.cluster, data, "--workers", "2") as running:
        yield running.caught_up(story.batches - 1)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))
