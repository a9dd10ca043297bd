"""Advisories about locked packages: those that are accepted, and those of a local copy of a database (OSV format)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from lock_file import Pin
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ACCEPTED: Final = Path(__file__).resolve().parent / "accepted_advisories.toml"
KEYS: Final = {"id": str, "package": str, "reason": str, "date": date}


class Finding(NamedTuple):
    """An advisory about a locked version. `names`: its id and those that other databases give it."""

    package: str
    version: str
    names: frozenset[str]
    summary: str


def accepted(path: Path = ACCEPTED) -> list[dict[str, Any]]:
    """Raises ValueError for an entry that is not complete."""
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text())["advisory"]
    for entry in entries:
        wrong = [key for key, kind in KEYS.items() if type(entry.get(key)) is not kind or not entry[key]]
        if wrong or entry.keys() - KEYS:
            raise ValueError(f"{path.name}: expected id, package, reason and date in each entry, found {entry}")
    return entries


def findings(locked: Iterable[Pin], database: Path) -> Iterator[Finding]:
    """What the records of a folder say about the locked versions. Raises ValueError for a folder without records."""
    versions: dict[str, list[str]] = {}
    for pin in locked:
        versions.setdefault(pin.name, []).append(pin.version)
    files = sorted(database.rglob("*.json"))
    if not files:
        raise ValueError(f"{database}: expected OSV records (*.json), found none")
    for file in files:
        yield from _about(versions, json.loads(file.read_text()))


def _about(locked: Mapping[str, list[str]], record: Mapping[str, Any]) -> Iterator[Finding]:
    if record.get("withdrawn"):
        return
    names = frozenset({record["id"], *record.get("aliases", ())})
    for affected in record.get("affected", ()):
        package = affected.get("package", {})
        name = canonicalize_name(package.get("name", ""))
        if package.get("ecosystem") == "PyPI":
            for version in locked.get(name, ()):
                if _is_affected(version, affected):
                    yield Finding(name, version, names, record.get("summary", ""))


def _is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    if version in affected.get("versions", ()):
        return True
    ranges = [one["events"] for one in affected.get("ranges", ()) if one.get("type") == "ECOSYSTEM"]
    return any(_is_within(Version(version), events) for events in ranges)


def _is_within(version: Version, events: Iterable[Mapping[str, str]]) -> bool:
    """Whether the last event up to the version introduces the vulnerability (OSV's algorithm)."""
    inside = False
    for event in sorted(events, key=lambda event: _version(next(iter(event.values())))):
        ((kind, text),) = event.items()
        limit = _version(text)
        if kind == "introduced" and version >= limit:
            inside = True
        elif (kind == "fixed" and version >= limit) or (kind == "last_affected" and version > limit):
            inside = False
    return inside


def _version(text: str) -> Version:
    """`0` is before all versions. A version that Python's rules do not know counts as the first, too."""
    try:
        return Version("0.dev0" if text == "0" else text)
    except InvalidVersion:
        return Version("0.dev0")
