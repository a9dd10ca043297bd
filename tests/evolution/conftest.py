from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.evolution.module_file import ModuleFile


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
