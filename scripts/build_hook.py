"""Puts the compiled core into the wheel, where a C compiler is. `MONEYSTATE_PURE=1` leaves it out.

A wheel with it is for one Python and platform, a wheel without it for all. Not in an editable install: there `make env`
compiles.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import compile_core


class CompiledCore(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """Returns what an isolated build installs for it."""
        return [] if compile_core.why_not() else list(compile_core.settings(Path(self.root))["requires"])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        if reason := compile_core.why_not():
            self.app.display_warning(f"{reason}: the wheel has the interpreted core, at about half the speed")
            return
        build_data.update(pure_python=False, infer_tag=True)
        for library, place in compile_core.libraries(Path(self.root)).items():
            build_data["force_include"][str(library)] = str(place)
