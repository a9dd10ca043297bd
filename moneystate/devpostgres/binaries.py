"""Finds the programs of a PostgreSQL server, or downloads them once for each user into the cache folder.

The first of these that has `initdb` is used:

1. the folder that `MONEYSTATE_POSTGRES` names;
2. the newest version below `/usr/lib/postgresql`, where Debian and Ubuntu keep them outside PATH;
3. the folder of the `initdb` on PATH;
4. the binaries of Maven's io.zonky.test.postgres, which have TLS and logical decoding.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from moneystate.devbroker.ivy import Artifact
from moneystate.devbroker.jars import cache_root, cached_jars
from moneystate.errors import SetupError

Progress = Callable[[str], None]

VARIABLE: Final = "MONEYSTATE_POSTGRES"
DEBIAN: Final = Path("/usr/lib/postgresql")
INITDB: Final = "initdb"
VERSION: Final = "15.13.0"
ORGANISATION: Final = "io.zonky.test.postgres"
ARCHITECTURES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}
SYSTEMS: Final = {"linux": "linux", "darwin": "darwin"}


def postgres_binaries(progress: Progress = lambda _line: None) -> Path:
    """The folder with `initdb` and `postgres`. Raises SetupError if there are none and none can be fetched."""
    return installed(os.environ) or _fetched(progress)


def installed(environ: Mapping[str, str], debian: Path = DEBIAN) -> Path | None:
    """The folder of an installed server. Raises SetupError if the variable names another folder."""
    if named := environ.get(VARIABLE):
        if not (Path(named) / INITDB).is_file():
            raise SetupError(
                f"{VARIABLE}={named}: expected a folder with {INITDB}, found none.",
                "name the folder of the server's programs.",
            )
        return Path(named)
    versions = [folder for folder in debian.glob("*/bin") if (folder / INITDB).is_file()]
    if versions:
        return max(versions, key=lambda folder: [int(n) for n in re.findall(r"\d+", folder.parent.name)])
    on_path = shutil.which(INITDB, path=environ.get("PATH"))
    return Path(on_path).resolve().parent if on_path else None


def artifact(system: str, machine: str) -> Artifact:
    """Maven's artifact for a system, as `platform` names it. Raises SetupError."""
    try:
        name = f"embedded-postgres-binaries-{SYSTEMS[system.lower()]}-{ARCHITECTURES[machine.lower()]}"
    except KeyError:
        raise SetupError(
            f"PostgreSQL: expected an installed server, found none, and there are no binaries for {system} {machine}.",
            f"install PostgreSQL 15 or later, or set {VARIABLE}.",
        ) from None
    return Artifact(ORGANISATION, name, VERSION, alone=True)


def _fetched(progress: Progress) -> Path:
    """Unpacks the binaries beside their jar. The folder appears by a rename, so it is complete if it exists."""
    wanted = artifact(platform.system(), platform.machine())
    folder = cache_root() / f"postgres-{VERSION}"
    if not folder.is_dir():
        told = f"PostgreSQL {VERSION} (once, 15 MB)"
        jars = cached_jars(f"postgres-{VERSION}-jar", [wanted], told, progress)
        with (cache_root() / f"{folder.name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not folder.is_dir():
                _unpack(jars / f"{wanted.name}-{VERSION}.jar", folder)
    return folder / "bin"


def _unpack(jar: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        with zipfile.ZipFile(jar) as content:
            packed = next((name for name in content.namelist() if name.endswith(".txz")), None)
            if packed is None:
                raise SetupError(f"{jar}: expected a packed server, found none.", "check your mirror.")
            content.extract(packed, work)
        unpacked = Path(work) / "postgres"
        with tarfile.open(Path(work) / packed, "r:xz") as archive:
            archive.extractall(unpacked, filter="tar")
        unpacked.chmod(0o755)
        shutil.move(unpacked, folder)
