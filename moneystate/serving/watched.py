"""Reloads files that change while the server runs: certificates and token keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from moneystate.errors import ConfigError
from moneystate.log import get_log

_log = get_log(__name__)

Content = TypeVar("Content")

Stamps = list[tuple[int, int, int]]


class Watched(Generic[Content]):
    """A value read from files. If the files cannot be used, for example because they are half renewed, the previous
    value stays, and the next refresh tries again. The constructor raises what `read` raises: ConfigError or OSError."""

    def __init__(self, description: str, paths: Sequence[str], read: Callable[[], Content]) -> None:
        self.description = description
        self.paths = paths
        self.read = read
        self.last_line = ""
        self.seen = self._stamps()
        self.current = read()  # the latest valid value

    def refresh(self) -> bool:
        """Reads the files again if they changed. Returns whether `current` is new."""
        try:
            stamps = self._stamps()
            if stamps == self.seen:
                return False
            self.current = self.read()
        except (OSError, ConfigError) as e:
            self._say(f"{self.description}: {e} The previous ones stay in use.")
            return False
        self.seen, self.last_line = stamps, ""
        return True

    def _say(self, line: str) -> None:
        """Logs a problem once, however often the files are checked."""
        if line != self.last_line:
            self.last_line = line
            _log.warning(line)

    def _stamps(self) -> Stamps:
        stats = [Path(path).stat() for path in self.paths]
        return [(s.st_mtime_ns, s.st_ino, s.st_size) for s in stats]
