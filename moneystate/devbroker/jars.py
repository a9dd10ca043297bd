"""The broker's jars, downloaded once for each user into the cache folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from moneystate.devbroker.ivy import Artifact, retrieve
from moneystate.errors import SetupError

KAFKA_VERSION = "4.2.1"
# Kafka's artifact has no logging backend, and without one the broker would die silently.
ARTIFACTS = [
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
]

Progress = Callable[[str], None]


def cache_root() -> Path:
    """`$MONEYSTATE_CACHE`, else `moneystate` in the user's cache folder."""
    if named := os.environ.get("MONEYSTATE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moneystate"


def kafka_jars(progress: Progress = lambda _line: None) -> Path:
    """The folder with the broker's jars. Downloads them the first time (43 MB, about 40 s)."""
    told = f"Apache Kafka {KAFKA_VERSION} (once, 43 MB, about 40 s)"
    return cached_jars(f"kafka-{KAFKA_VERSION}", ARTIFACTS, told, progress)


def cached_jars(name: str, artifacts: list[Artifact], told: str, progress: Progress = lambda _line: None) -> Path:
    """The folder `name` with the artifacts' jars. Downloads them the first time. `told`: what `progress` says of it.

    The folder appears by a rename, so it is complete if it exists. If two processes need it, the second waits.
    """
    folder = cache_root() / name
    if folder.is_dir():
        return folder
    try:
        cache_root().mkdir(parents=True, exist_ok=True)
        with _locked(cache_root() / f"{folder.name}.lock"):
            if not folder.is_dir():
                progress(f"fetching {told} into {folder}")
                _fetch(folder, artifacts)
    except OSError as error:
        raise SetupError(
            f"{cache_root()}: expected a cache folder to write to, but {error}.",
            do="set MONEYSTATE_CACHE to another one.",
        ) from error
    return folder


def _fetch(folder: Path, artifacts: list[Artifact]) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        fetched = Path(work) / "jars"
        retrieve(artifacts, fetched, Path(work))
        missing = [a.name for a in artifacts if not (fetched / f"{a.name}-{a.revision}.jar").exists()]
        if missing:
            raise SetupError(
                f"Ivy: expected {' and '.join(missing)}, found success without them.", do="check your mirror."
            )
        shutil.move(fetched, folder)


@contextmanager
def _locked(lock_file: Path) -> Iterator[None]:
    with lock_file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
