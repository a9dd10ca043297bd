"""Checks the locks: fresh (they satisfy pyproject.toml and requirements.in), hashed, apart, and free of addresses.

`make check` runs it. It needs no network, so it cannot see newer releases; `make lock` makes new locks.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator

from lock_file import DEVELOPMENT, ROOT, RUN_TIME
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
PARTLY = re.compile(r"^([A-Za-z0-9._-]+)==.*sys_platform ==", re.MULTILINE)
Pins = dict[str, list[Version]]
PICTURES = "plot"  # the extra that is locked for development only


def wanted_by_a_run() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [text for name, its in project["optional-dependencies"].items() if name != PICTURES for text in its]
    return [Requirement(text) for text in [*project["dependencies"], *extras]]


def wanted_by_development() -> list[Requirement]:
    """Also what builds the wheel and compiles the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements.in").read_text().splitlines())
    build = [*project["build-system"]["requires"], *project["tool"]["moneystate"]["compiled"]["requires"]]
    return [Requirement(text) for text in [*filter(None, lines), *build]]


def pins_of(lock: str) -> tuple[Pins, list[str]]:
    """The pins, and what is wrong with the lock by itself."""
    entries = [line for line in re.sub(r"\\\n", " ", lock).splitlines() if line and not line.lstrip().startswith("#")]
    messages = [f"an address: {line}" for line in lock.splitlines() if "://" in line or line.startswith("-")]
    pins: Pins = {}
    for entry in entries:
        pin = PIN.match(entry)
        if pin is None or "--hash=sha256:" not in entry:
            messages.append(f"not a pin with hashes: {entry[:80]}")
        else:
            pins.setdefault(canonicalize_name(pin["name"]), []).append(Version(pin["version"]))
    return pins, messages


def missing(wanted: Iterable[Requirement], pins: Pins) -> Iterator[str]:
    for requirement in wanted:
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not versions or not all(version in requirement.specifier for version in versions):
            yield f"{requirement} is asked for, locked is {', '.join(map(str, versions)) or 'nothing'}"


def problems(run_time: str, development: str) -> dict[str, list[str]]:
    """Returns the problems by file. Development has the packages of a run, too, so none may be in both, but for what a
    run needs on some platforms only."""
    needed, of_run_time = pins_of(run_time)
    more, of_development = pins_of(development)
    of_run_time += missing(wanted_by_a_run(), needed)
    of_development += missing(wanted_by_development(), {**more, **needed})
    partly = {canonicalize_name(name) for name in PARTLY.findall(run_time)}
    both = needed.keys() & more.keys() - partly
    of_development += [f"{name} is in {RUN_TIME.name}, too" for name in sorted(both)]
    return {RUN_TIME.name: of_run_time, DEVELOPMENT.name: of_development}


def main() -> int:
    by_file = problems(RUN_TIME.read_text(), DEVELOPMENT.read_text())
    for name, messages in by_file.items():
        for problem in messages:
            print(f"{name}: {problem}. Do: make lock", file=sys.stderr)
    return 1 if any(by_file.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
