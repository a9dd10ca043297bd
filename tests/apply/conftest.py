"""Fixtures of the tests that need a database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from moneystate.devbroker import DevBroker
from moneystate.devpostgres import DevPostgres
from tests.apply.harness import Site


@pytest.fixture
def site(broker: DevBroker, postgres: DevPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A database and topics of its own for each test."""
    name = f"t{uuid.uuid4().hex[:12]}"
    with Site(broker.bootstrap_servers, postgres, name, tmp_path_factory.mktemp("apply")) as made:
        yield made
