"""Fixtures for all tests."""

from __future__ import annotations

import uuid

import pytest

from moneystate.devbroker import DevBroker

# Their tests start the whole job: first, so that several processes end at about the same time.
LONG = ("services", "job", "evolution", "demo", "savepoint", "query", "lookup", "bootstrap")
KEPT: list[DevBroker] = []  # the broker's watcher ends it once nothing holds the object any more


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name not in LONG)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> DevBroker:
    """A real broker for the whole run, on free loopback ports. It ends with this process, however that ends.

    Not before: a client that is still there would complain about it below the summary of the run.
    """
    running = DevBroker(tmp_path_factory.mktemp("broker"))
    running.start()
    KEPT.append(running)
    return running


@pytest.fixture
def topic_prefix() -> str:
    """A prefix of its own for each test: the broker is shared, its topics are not."""
    return f"t{uuid.uuid4().hex[:12]}-"
