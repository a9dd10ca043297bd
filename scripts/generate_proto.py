"""Writes the code of proto/: for Python into moneystate/ (messages, types, gRPC stubs), and for the client in Go
under examples/go (where there is Go).

`make check` says when it is not fresh (scripts/check_proto.py). Run: .venv/bin/python scripts/generate_proto.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
GO = ROOT / "examples" / "go"
GO_MODULE = "moneystate.example/query-client"
GO_PLUGINS = {
    "protoc-gen-go": "google.golang.org/protobuf/cmd/protoc-gen-go",
    "protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
}


def generate_python(into: Path) -> None:
    """All .proto files under proto/, in the same folders under `into`."""
    _protoc([f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")])
    for source in _sources():
        if not any(line.startswith("service ") for line in (PROTO / source).read_text().splitlines()):
            (into / source.replace(".proto", "_pb2_grpc.py")).unlink()


def generate_go(into: Path) -> None:
    """The same for Go, by the plugins whose versions examples/go/go.mod fixes."""
    with tempfile.TemporaryDirectory() as tools:
        flags = []
        for name, package in GO_PLUGINS.items():
            subprocess.run(["go", "build", "-o", f"{tools}/{name}", package], cwd=GO, check=True)
            flags.append(f"--plugin={name}={tools}/{name}")
        for kind in ("go", "go-grpc"):
            flags += [f"--{kind}_out={into}", f"--{kind}_opt=module={GO_MODULE}"]
            flags += [
                f"--{kind}_opt=M{source}={GO_MODULE}/{Path(source).parent};{Path(source).parent.parent.name}v1"
                for source in _sources()
            ]
        _protoc(flags)


def has_go() -> bool:
    return shutil.which("go") is not None


def _sources() -> list[str]:
    return sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))


def _protoc(flags: list[str]) -> None:
    well_known = str(files("grpc_tools") / "_proto")
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *flags, *_sources()]):
        raise SystemExit("protoc: expected to generate the code, it failed. Do: mend the .proto file.")


def main() -> int:
    generate_python(ROOT)
    if has_go():
        generate_go(GO)
    else:
        print("no Go here: examples/go is left as it is", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
