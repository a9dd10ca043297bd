"""Writes the code of proto/ into moneystate/: messages, types, gRPC stubs.

`make check` says when it is not fresh (scripts/check_proto.py). Run: .venv/bin/python scripts/generate_proto.py
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"


def generate_python(into: Path) -> None:
    """All .proto files under proto/, in the same folders under `into`."""
    _protoc([f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")])
    for source in _sources():
        if not any(line.startswith("service ") for line in (PROTO / source).read_text().splitlines()):
            (into / source.replace(".proto", "_pb2_grpc.py")).unlink()


def _sources() -> list[str]:
    return sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))


def _protoc(flags: list[str]) -> None:
    well_known = str(files("grpc_tools") / "_proto")
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *flags, *_sources()]):
        raise SystemExit("protoc: expected to generate the code, it failed. Do: mend the .proto file.")


def main() -> int:
    generate_python(ROOT)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
