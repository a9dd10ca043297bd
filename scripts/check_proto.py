"""Checks that the generated code of proto/ is fresh. `make check` runs it; scripts/generate_proto.py makes it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from generate_proto import ROOT, generate_python


def stale(committed: Path, fresh: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files that differ, are missing, or belong to no .proto file any more."""

    def contents(folder: Path) -> dict[Path, bytes]:
        return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.name.endswith(suffixes)}

    old, new = contents(committed), contents(fresh)
    return sorted(committed / name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        generate_python(Path(folder))
        outdated = stale(ROOT / "moneystate", Path(folder) / "moneystate", ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py"))
    for path in outdated:
        print(f"{path}: not what its .proto file says. Do: .venv/bin/python scripts/generate_proto.py", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    raise SystemExit(main())
