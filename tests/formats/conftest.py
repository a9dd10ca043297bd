"""Schemas and a registry for the tests of value formats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.records.schema_set import SchemaSet
from moneystate.registry.client import ANSWERS
from tests.formats.registry_server import RegistryServer
from tests.formats.values import SET


@pytest.fixture(scope="session")
def schemas() -> SchemaSet:
    return SET


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    ANSWERS.clear()  # a port may come twice
    with RegistryServer() as server:
        yield server
    ANSWERS.clear()
