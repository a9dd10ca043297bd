"""One world for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.devbroker import DevBroker
from tests.console.world import World


@pytest.fixture(scope="module")
def world(own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(own_broker.bootstrap_servers, tmp_path_factory.mktemp("world"), "--allow-writes") as running:
        yield running
