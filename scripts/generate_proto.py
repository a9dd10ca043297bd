"""Writes the Python code of proto/ beside its .proto files: messages, types, gRPC stubs.

`make check` says when it is not fresh (scripts/check_proto.py). Run: .venv/bin/python scripts/generate_proto.py
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent.parent / "proto"


def generate(into: Path) -> None:
    """All .proto files under proto/, in the same folders under `into`."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    outs = [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *outs, *sources]):
        raise SystemExit("protoc: expected to generate the code, it failed. Do: mend the .proto file.")
    for path in into.rglob("*_pb2_grpc.py"):
        if not _has_service(into, path):
            path.unlink()


def _has_service(into: Path, stubs: Path) -> bool:
    source = PROTO / stubs.relative_to(into).with_name(stubs.name.replace("_pb2_grpc.py", ".proto"))
    return any(line.startswith("service ") for line in source.read_text().splitlines())


if __name__ == "__main__":
    generate(PROTO)
    sys.exit(0)
