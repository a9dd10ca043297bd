"""Checks requirements.lock: fresh (it satisfies pyproject.toml and requirements.in), hashed, and free of addresses.

`make check` runs it. It needs no network, so it cannot see newer releases; `make lock` makes the lock anew.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements.in").read_text().splitlines())
    extras = [text for its in project["project"]["optional-dependencies"].values() for text in its]
    return [Requirement(text) for text in [*project["project"]["dependencies"], *extras, *filter(None, lines)]]


def problems(lock: str) -> list[str]:
    entries = [line for line in re.sub(r"\\\n", " ", lock).splitlines() if line and not line.lstrip().startswith("#")]
    messages = [f"an address: {line}" for line in lock.splitlines() if "://" in line or line.startswith("-")]
    pins: dict[str, list[Version]] = {}
    for entry in entries:
        pin = PIN.match(entry)
        if pin is None or "--hash=sha256:" not in entry:
            messages.append(f"not a pin with hashes: {entry[:80]}")
        else:
            pins.setdefault(canonicalize_name(pin["name"]), []).append(Version(pin["version"]))
    for requirement in wanted():
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not versions or not all(version in requirement.specifier for version in versions):
            messages.append(f"{requirement} is asked for, locked is {', '.join(map(str, versions)) or 'nothing'}")
    return messages


def main() -> int:
    messages = problems((ROOT / "requirements.lock").read_text())
    for problem in messages:
        print(f"requirements.lock: {problem}. Do: make lock", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    raise SystemExit(main())
