"""The advisories about locked packages that are accepted."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any, Final

ACCEPTED: Final = Path(__file__).resolve().parent / "accepted_advisories.toml"
KEYS: Final = {"id": str, "package": str, "reason": str, "date": date}


def accepted(path: Path = ACCEPTED) -> list[dict[str, Any]]:
    """Raises ValueError for an entry that is not complete."""
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text())["advisory"]
    for entry in entries:
        wrong = [key for key, kind in KEYS.items() if type(entry.get(key)) is not kind or not entry[key]]
        if wrong or entry.keys() - KEYS:
            raise ValueError(f"{path.name}: expected id, package, reason and date in each entry, found {entry}")
    return entries
