"""Reads requirements.lock, for the checks of the supply chain."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from packaging.utils import canonicalize_name

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


def needed_at_run_time(locked: Iterable[Pin]) -> set[str]:
    """The names of the packages that the project needs, directly or not. Others are for development."""
    asked_by = {pin.name: set(pin.asked_by) for pin in locked}
    needed = {PROJECT}
    while more := {name for name, by in asked_by.items() if by & needed} - needed:
        needed |= more
    return needed - {PROJECT}
