"""One world for the tests of all files that change nothing that others look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.devbroker import DevBroker
from tests.console.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Once for a worker. Each test looks at keys of its own, or at those that no test changes."""
    with (
        DevBroker(tmp_path_factory.mktemp("world-broker")) as broker,
        World(broker.bootstrap_servers, tmp_path_factory.mktemp("world"), "--allow-writes") as running,
    ):
        yield running
