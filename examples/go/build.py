"""Builds the clients in Go: `python examples/go/build.py FOLDER` puts them there.

The code of the contracts in proto/ is generated for each build, in a folder of its own. Needs grpcio-tools and Go, with
the modules of go.mod: `make test` fetches all of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
MODULE = "moneystate.example/query-client"
PLUGINS = {
    "protoc-gen-go": "google.golang.org/protobuf/cmd/protoc-gen-go",
    "protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
}


def build(out: Path, also: Path | None) -> None:
    """Puts a program for each folder with a `main` into `out`. `also`: a folder beside those of this example."""
    with tempfile.TemporaryDirectory() as folder:
        module, tools = Path(folder) / "module", Path(folder) / "tools"
        shutil.copytree(HERE, module)
        if also is not None:
            shutil.copytree(also, module / also.name)
        _generate(module, tools)
        _go(module, "build", "-trimpath", "-o", f"{out.resolve()}/", "./...")


def _generate(module: Path, tools: Path) -> None:
    """The code of all .proto files, by the plugins whose versions go.mod fixes."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    packages = [f"M{name}={MODULE}/{Path(name).parent};{Path(name).parent.parent.name}v1" for name in sources]
    flags = [f"-I{PROTO}", f"-I{files('grpc_tools') / '_proto'}"]
    _go(module, "build", "-o", f"{tools}/", *PLUGINS.values())
    for plugin in PLUGINS:
        kind = plugin.removeprefix("protoc-gen-")
        flags += [f"--plugin={plugin}={tools / plugin}", f"--{kind}_out={module}", f"--{kind}_opt=module={MODULE}"]
        flags += [f"--{kind}_opt={package}" for package in packages]
    if protoc.main(["protoc", *flags, *sources]):
        raise SystemExit(f"{PROTO}: expected files that protoc takes, see above. Mend the .proto file.")


def _go(module: Path, *arguments: str) -> None:
    """Runs Go without the network: `make test` has fetched the modules."""
    own = Path(sys.executable).with_name("go")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=readonly"}
    subprocess.run([str(own) if own.exists() else "go", *arguments], cwd=module, check=True, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds the clients in Go.")
    parser.add_argument("folder", type=Path, help="where the programs go: query-client and state")
    parser.add_argument("--also", type=Path, metavar="FOLDER", help="a program that uses the generated code, too")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    build(given.folder, given.also)


if __name__ == "__main__":
    main()
