"""A clock that can be turned, for the processes of a machine: libfaketime, and what it lacks."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

NAME = "libfaketimeMT.so.1"  # `make test` puts it into .venv/lib, Debian's package into the system's folder
FOLDERS = (Path(sys.prefix) / "lib", Path(f"/usr/lib/{platform.machine()}-linux-gnu/faketime"))
WAITS = Path(__file__).with_name("waits.c")


class Clock:
    def __init__(self, folder: Path) -> None:
        self.file, self.waits = folder / "clock", folder / "waits.so"
        self.turn(0)

    def turn(self, seconds: int) -> None:
        """So far ahead of the real clock, or behind it."""
        self.file.write_text(f"{seconds:+d}\n")

    def environment(self) -> dict[str, str] | None:
        """For processes that have this clock; None: libfaketime is not installed."""
        library = next((folder / NAME for folder in FOLDERS if (folder / NAME).exists()), None)
        if library is None:
            return None
        if not self.waits.exists():
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(self.waits), str(WAITS)], check=True)
        return {
            "LD_PRELOAD": f"{self.waits} {library}",
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
