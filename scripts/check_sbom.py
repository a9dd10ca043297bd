"""Checks the SBOM of scripts/make_sbom.py: twice the same bytes, and complete. `make check` runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lock_file import DEVELOPMENT, ROOT, RUN_TIME
from make_sbom import spark_jars

from moneystate.devbroker.jars import kafka_jars


def made(folder: str, seed: str, zone: str) -> str:
    out = Path(folder) / f"{seed}.json"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone}
    command = [sys.executable, str(ROOT / "scripts" / "make_sbom.py"), str(out)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return out.read_text()


def problems(text: str) -> list[str]:
    """Counted without the code that makes it."""
    components: list[dict[str, Any]] = json.loads(text)["components"]
    purls = {component.get("purl") for component in components}
    text_of_locks = RUN_TIME.read_text() + DEVELOPMENT.read_text()
    lock = re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^\s;\\]+)", text_of_locks)
    missing = [f"{name}=={version}" for name, version in lock if f"pkg:pypi/{name}@{version}" not in purls]
    refs = {part["bom-ref"].rpartition("/")[2] for component in components for part in component.get("components", [])}
    missing += [
        jar.name for folder in (spark_jars(), kafka_jars()) for jar in folder.glob("*.jar") if jar.name not in refs
    ]
    return [f"{name} is missing" for name in missing]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        first, second = made(folder, "1", "UTC"), made(folder, "2", "Asia/Tokyo")
    messages = problems(first)
    if first != second:
        messages.append("two runs made two documents")
    for message in messages:
        print(f"SBOM: {message}. Do: mend scripts/make_sbom.py", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    raise SystemExit(main())
