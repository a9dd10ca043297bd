"""Unpacks tar files. Python's own way differs within 3.11: 3.11.4 has filters, and 3.12 warns without one."""

from __future__ import annotations

import subprocess
from pathlib import Path


def unpack(file: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", str(file), "-C", str(folder)], check=True)
