"""Checks the list of accepted advisories. `make check` runs it. `make audit` looks them up."""

from __future__ import annotations

import sys

from advisories import accepted
from lock_file import DEVELOPMENT, RUN_TIME, pins


def problems(lock: str) -> list[str]:
    """Entries about packages that are not locked. Raises ValueError for an entry that is not complete."""
    names = {pin.name for pin in pins(lock)}
    return [
        f"{entry['id']}: {entry['package']} is not locked. Do: remove it"
        for entry in accepted()
        if entry["package"] not in names
    ]


def main() -> int:
    try:
        messages = problems(RUN_TIME.read_text() + DEVELOPMENT.read_text())
    except ValueError as e:
        messages = [str(e)]
    for message in messages:
        print(f"advisories: {message}", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    raise SystemExit(main())
