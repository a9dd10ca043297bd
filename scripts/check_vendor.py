"""Checks that the scripts of others that the console ships are those of vendor.toml. `make check` runs it."""

from __future__ import annotations

import hashlib
import sys
import tomllib
from pathlib import Path

STATIC = Path(__file__).parent.parent / "moneystate" / "console" / "static"


def problems() -> list[str]:
    packages = tomllib.loads((STATIC / "vendor.toml").read_text())["packages"]
    expected = {Path(file).name: digest for one in packages for file, digest in one["files"].items()}
    shipped = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").iterdir()}
    names = sorted({*expected, *shipped})
    return [
        f"{name}: expected sha256 {expected.get(name, 'no such file')}, found {shipped.get(name, 'none')}."
        for name in names
        if expected.get(name) != shipped.get(name)
    ]


if __name__ == "__main__":
    wrong = problems()
    print(
        "\n".join([*wrong, "Do: scripts/vendor.sh."] if wrong else ["the console's scripts are those of vendor.toml"])
    )
    sys.exit(bool(wrong))
