"""Fixtures of the tests that load tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from tests.tables.harness import Site


@pytest.fixture
def site(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Site]:
    """A topic and a folder of its own for each test."""
    made = Site(broker.bootstrap_servers, f"{topic_prefix}prices", tmp_path)
    yield made
    made.close()
