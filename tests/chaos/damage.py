"""Files of a checkpoint, truncated or removed as a bad disk or a hand may do it."""

from __future__ import annotations

import random
from pathlib import Path

PATTERNS = {
    "offsets": "offsets/*",
    "commits": "commits/*",
    "metadata": "metadata",
    "settings": "moneystate/settings.json",
    "start": "moneystate/start.json",
    "rules": "moneystate/rules/*",
    "changelog": "state/*/*/*.changelog",
    "snapshot": "state/*/*/*.zip",
    "sst": "state/*/*/SSTs/*",
    "driver log": "moneystate/driver.log",
}


def damage(checkpoint: Path, variant: str, how: str, chance: int) -> Path | None:
    """One file, of numbered ones one of the last two; None: there is none."""
    rng = random.Random(chance)
    files = [f for f in sorted(checkpoint.glob(PATTERNS[variant]), key=_number) if not f.name.startswith(".")]
    if not files:
        return None
    file = rng.choice(files[-2:])
    if how == "removed":
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if how == "truncated" else b"")
    return file


def _number(file: Path) -> tuple[int, str]:
    return (int(file.stem) if file.stem.isdecimal() else 0, file.as_posix())
