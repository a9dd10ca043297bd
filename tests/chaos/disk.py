"""A small disk: a tmpfs, which only root can mount."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

SIZE_MB = 48


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        """Raises PermissionError where nothing can be mounted."""
        folder.mkdir()
        self.folder = folder
        self.filler = folder / "filler"
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as e:
            raise PermissionError(str(e)) from None
        if done.returncode:
            raise PermissionError(done.stderr.strip())

    def fill(self, left_bytes: int) -> None:
        """Until about so much is left."""
        there = os.statvfs(self.folder)
        size = max(0, there.f_bavail * there.f_frsize - left_bytes)
        with contextlib.suppress(OSError), self.filler.open("wb") as f:  # the job writes, too
            while size > 0:
                size -= f.write(bytes(min(size, 1 << 20)))

    def free(self) -> None:
        self.filler.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)
