from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moneystate.devbroker import DevBroker
from tests.evolution.module_file import ModuleFile
from tests.job.harness import Setup


@pytest.fixture
def setup(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> Setup:
    return Setup(broker.bootstrap_servers, topic_prefix, tmp_path)


@pytest.fixture
def module_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleFile]]:
    """Makes modules that can be imported until the end of the test."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[ModuleFile] = []

    def make(name: str) -> ModuleFile:
        made.append(ModuleFile(tmp_path, name))
        return made[-1]

    yield make
    for one in made:
        one.forget()
