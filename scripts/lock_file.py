"""Reads the locks, for the checks of the supply chain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent
RUN_TIME: Final = ROOT / "requirements.lock"
DEVELOPMENT: Final = ROOT / "requirements-dev.lock"  # what development needs beyond it
PROJECT: Final = "moneystate (pyproject.toml)"  # asks for what the project itself needs
_PIN: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")


class Pin(NamedTuple):
    """A locked package. `asked_by`: the packages and files that need it."""

    name: str
    version: str
    hashes: tuple[str, ...]
    asked_by: tuple[str, ...]


def pins(lock: str) -> list[Pin]:
    """A name may have several versions, each for some Pythons."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock)
    return [_pin(name["name"], name["version"], entry) for entry in entries if (name := _PIN.match(entry))]


def _pin(name: str, version: str, entry: str) -> Pin:
    comments = [line.strip("# ") for line in entry.splitlines() if line.startswith("    #")]
    asked_by = [text.removeprefix("via").strip() for text in comments]
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
    return Pin(canonicalize_name(name), version, tuple(hashes), tuple(filter(None, asked_by)))
