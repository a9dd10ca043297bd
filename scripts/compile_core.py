"""Compile the pure core with mypyc, where a C compiler is there: the same source, two to three times as fast.

`compile_core.py` compiles what has changed; `--check` only says (exit code 1) when compiled modules are older than
their source, `--clean` removes them. Without a C compiler the core runs interpreted, with the same results.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAMP = ROOT / "moneystate" / "engine" / ".compiled"
# not rules: a frozen dataclass compiled cannot be unpickled in Spark's workers
ENRICHMENT = (
    "fingerprints", "topics", "source", "money_ids", "migrations", "events", "page", "state", "users", "step", "emit",
)  # fmt: skip
# not context and entries: a user's tests may derive from their classes
API = (
    "avro_parts", "cells", "codec", "decoder", "emission", "field_runs", "iso_time", "json_parts", "json_text",
    "json_topic", "layout", "map_cells", "member_runs", "plan_parts", "reading", "runtime", "step_changes",
    "transcoder", "working_set",
)  # fmt: skip
IN_PART = {
    "moneystate/api": API,
    "services/enrichment": ENRICHMENT,
    "services/enrichment/replica": ("decode",),
    "moneystate/replica": ("rows",),
}
FOLDERS = (".", "moneystate/engine", *IN_PART)
PACKAGES = ("moneystate", "services")


def sources() -> list[Path]:
    engine = [p for p in sorted((ROOT / "moneystate" / "engine").glob("*.py")) if p.name != "__init__.py"]
    return engine + [ROOT / folder / f"{name}.py" for folder, names in IN_PART.items() for name in names]


def stamp() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compiled() -> list[Path]:
    """All of them, also those of sources that have moved or are no longer compiled."""
    return [*ROOT.glob("*.so"), *(p for package in PACKAGES for p in (ROOT / package).rglob("*.so"))]


def is_fresh() -> bool:
    """Whether each source has its library, nothing else has one, and none of the sources has changed since."""
    if not STAMP.exists() or STAMP.read_text() != stamp():
        return False
    libraries = {path.parent / path.name.partition(".")[0] for path in compiled() if path.parent != ROOT}
    return libraries == {path.with_suffix("") for path in sources()}


def clean() -> None:
    for path in compiled():
        path.unlink()
    STAMP.unlink(missing_ok=True)


def has_compiler() -> bool:
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return headers.exists() and shutil.which(compiler) is not None


def build() -> None:
    """In a copy: setuptools would take this folder's project for the one to build."""
    clean()
    names = [str(path.relative_to(ROOT)) for path in sources()]
    script = (
        "from setuptools import setup; from mypyc.build import mypycify; "
        f"setup(name='core', packages=[], ext_modules=mypycify({names!r}, opt_level='3'))"
    )
    with tempfile.TemporaryDirectory() as temporary:
        for package in PACKAGES:
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, Path(temporary) / package, ignore=skipped)
        command = [sys.executable, "-c", script, "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"the core did not compile:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        for folder in FOLDERS:
            for library in (Path(temporary) / folder).glob("*.so"):
                shutil.copy(library, ROOT / folder)
    STAMP.write_text(stamp())


def main() -> None:
    if "--clean" in sys.argv:
        clean()
    elif "--check" in sys.argv:
        if compiled() and not is_fresh():
            sys.exit("the compiled core is older than its source: run make env")
    elif is_fresh():
        return
    elif not has_compiler():
        clean()
        print(
            "no C compiler with Python's headers: the core runs interpreted, at about half the speed", file=sys.stderr
        )
    else:
        print("compiling the core (about a minute)", file=sys.stderr)
        build()


if __name__ == "__main__":
    main()
