"""Fixtures for all tests."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from moneystate import log
from moneystate.cli.services import MODULES
from moneystate.devbroker import DevBroker
from moneystate.devdebezium import DevDebezium
from moneystate.devpostgres import DevPostgres
from moneystate.job.local.memory_clients import memory_log
from tests import cost

if TYPE_CHECKING:
    from tests.job.harness import Setup
    from tests.kafka.logs import Cluster
    from tests.local.in_memory import InMemory

TESTS = Path(__file__).resolve().parent
# First, so that several processes end at about the same time: minutes each, then all that starts the whole job.
LONGEST = (
    "services/test_live.py",
    "services/test_local.py",
    "test_tutorial.py",
    "demo/test_service_demos.py",
    "job/test_crash.py",
    "job/test_timed_streams.py",
    "job/test_life.py",
)
LONG = ("job", "evolution", "demo", "savepoint", "query", "lookup", "bootstrap", "secured", "spark", "chaos", "storage")
# A busy machine is no failure.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")
KEPT: list[DevBroker] = []  # the broker's watcher ends it once nothing holds the object any more


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(cost)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest selects by markers: `property` marks what Hypothesis gives examples to."""
    for item in items:
        if isinstance(item, pytest.Function) and getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker("property")
    items.sort(key=lambda item: rank(item.path))


def rank(file: Path) -> int:
    """What has the lowest starts first."""
    name = file.relative_to(TESTS).as_posix() if file.is_relative_to(TESTS) else ""
    if name in LONGEST:
        return LONGEST.index(name)
    return len(LONGEST) + (file.parent.name not in LONG)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> DevBroker:
    """A real broker for the whole run, on free loopback ports. It ends with this process, however that ends.

    Not before: a client that is still there would complain about it below the summary of the run.
    """
    running = DevBroker(tmp_path_factory.mktemp("broker"))
    running.start()
    KEPT.append(running)
    return running


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """A broker for the tests of one file, whose topics have no prefix."""
    with DevBroker(tmp_path_factory.mktemp("own-broker")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[DevPostgres]:
    """A real PostgreSQL for the whole run. Tests have databases of their own."""
    with DevPostgres() as running:
        yield running


@pytest.fixture(scope="module")
def debezium(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevDebezium]:
    """A Kafka Connect for the tests of one file. Tests have connectors of their own."""
    with DevDebezium(tmp_path_factory.mktemp("debezium"), broker.bootstrap_servers) as running:
        yield running


@pytest.fixture(autouse=True)
def log_ends() -> Iterator[None]:
    """A command that ran in this process does not log for the next test."""
    yield
    log.end()


@pytest.fixture(autouse=True)
def imports_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command makes importable, here and in the processes that start from here, is not so for the next test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(MODULES, os.environ.get(MODULES, ""))


@pytest.fixture
def topic_prefix() -> str:
    """A prefix of its own for each test: the broker is shared, its topics are not."""
    return f"t{uuid.uuid4().hex[:12]}-"


@pytest.fixture
def cluster(broker: DevBroker, topic_prefix: str) -> Cluster:
    """Topics of the test's own."""
    from tests.kafka.logs import Cluster  # it imports Kafka's client, which many tests do without

    return Cluster(broker.bootstrap_servers, topic_prefix)


@pytest.fixture
def setup(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Setup:
    """Topics, folders and commands for a job."""
    from tests.job.harness import Setup  # it imports Spark's side, which most tests do without

    return Setup(broker.bootstrap_servers, topic_prefix, tmp_path)


@pytest.fixture
def memory_cluster(topic_prefix: str) -> Iterator[Cluster]:
    """As `cluster`, on a log in memory."""
    from tests.kafka.logs import Cluster

    with memory_log() as (_, address):
        yield Cluster(address, topic_prefix)


@pytest.fixture
def in_memory(topic_prefix: str, tmp_path: Path) -> Iterator[InMemory]:
    """As `setup`, on a log in memory and in this process."""
    from tests.local.in_memory import InMemory

    with memory_log() as (_, address):
        yield InMemory(address, topic_prefix, tmp_path)
