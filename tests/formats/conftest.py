"""Schemas and a registry for the tests of value formats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moneystate.kafka.formats import SchemaSet
from moneystate.kafka.formats.registry import ANSWERS
from tests.formats.registry_server import RegistryServer


@pytest.fixture(scope="session")
def schemas() -> SchemaSet:
    return SchemaSet.load()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    ANSWERS.clear()  # a port may come twice
    with RegistryServer() as server:
        yield server
    ANSWERS.clear()
