"""Checks the locks against a local copy of an advisory database, and the list of accepted advisories. `make check` runs
it; it needs no network.

`ADVISORIES` names the folder of the database: records in OSV's format, for example OSV's export of PyPI.
Without it only the list is checked, and a line says so. `make audit` asks PyPI.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from advisories import accepted, findings
from lock_file import DEVELOPMENT, RUN_TIME, pins

DATABASE = "ADVISORIES"


def problems(lock: str, database: str) -> list[str]:
    locked = pins(lock)
    entries = accepted()
    names = {pin.name for pin in locked}
    messages = [f"{e['id']}: {e['package']} is not locked. Do: remove it" for e in entries if e["package"] not in names]
    ignored = {(entry["package"], entry["id"]) for entry in entries}
    for one in findings(locked, Path(database)) if database else ():
        if not any((one.package, name) in ignored for name in one.names):
            known_as = ", ".join(sorted(one.names))
            messages.append(f"{one.package} {one.version}: {known_as}: {one.summary} Do: upgrade it (make lock)")
    return messages


def main() -> int:
    database = os.environ.get(DATABASE, "")
    if not database:
        print(f"no advisories were looked up: {DATABASE} names no local database. `make audit` asks PyPI.")
    try:
        messages = problems(RUN_TIME.read_text() + DEVELOPMENT.read_text(), database)
    except ValueError as e:
        messages = [str(e)]
    for message in messages:
        print(f"advisories: {message}", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    raise SystemExit(main())
