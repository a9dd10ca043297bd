"""One changelog and one server for most tests; those that need another server start it over a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.devbroker import DevBroker
from services.query.client import Client
from tests.query.certificates import Pki
from tests.query.serving import Server, new_cluster


@pytest.fixture(scope="session")
def server(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Open on loopback, two workers, the whole story; nobody changes its state."""
    with Server(new_cluster(broker), tmp_path_factory.mktemp("replica"), "--workers", "2") as running:
        yield running.told()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))
