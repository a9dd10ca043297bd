"""A folder on this machine, or on a file system that it mounts."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from moneystate.errors import CheckpointError
from moneystate.job.local_path import existing_part, spark_path


class LocalFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self.address = spark_path(path)

    def exists(self, name: str = "") -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Spark's checksum of a file that it wrote: Spark does not require one, but refuses a wrong one
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        # a name of its own: two starts on one checkpoint may write the same file
        temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex}.tmp")
        with temporary.open("xb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(path)

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    def names(self, name: str) -> list[str]:
        folder = self.path / name
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []

    def driver_log(self, name: str) -> Path | None:
        return self.path / name

    def check_writable(self) -> None:
        existing = existing_part(self.path)
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise CheckpointError(
                f"{self.path}: expected a folder that can be written to.",
                "choose another one, or change its permissions.",
            )
