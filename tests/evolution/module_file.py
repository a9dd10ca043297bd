"""The module of a service, which a test writes several times."""

from __future__ import annotations

import sys
from importlib.util import cache_from_source
from pathlib import Path

from moneystate.runtime.plans import plan_of


class ModuleFile:
    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.file = folder / f"{name}.py"

    def write(self, text: str) -> None:
        self.file.write_text(text)
        # Python takes compiled code for that of a file of the same size and second
        Path(cache_from_source(str(self.file))).unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """The next import reads the file."""
        sys.modules.pop(self.name, None)
        plan_of.cache_clear()
