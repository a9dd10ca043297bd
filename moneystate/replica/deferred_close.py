"""Keeps handles on RocksDB files open for some seconds after RocksDB has deleted them.

The process that closes a deleted file last returns its pages and blocks to the system. That takes 1 to 6 ms per file,
and a compaction deletes dozens. A reader that did so while it catches up would not answer meanwhile, so the follower
closes the files last.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from moneystate.log import get_log
from moneystate.replica.files import SUFFIXES

POLL_S: Final = 1.0
CLOSE_DELAY_S: Final = 5.0  # readers catch up with a write within a second

log = get_log(__name__)


class DeferredClose:
    """Works as a context: a thread polls the folder every POLL_S, and all handles are closed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handles: dict[str, int] = {}
        self.gone_at: dict[str, float] = {}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, name="held", daemon=True)

    def poll(self, now_s: float) -> None:
        """Closes files that were deleted CLOSE_DELAY_S ago, and opens new files. `now_s`: of any monotonic clock.

        If the system has no more handles, all are closed, because RocksDB needs them.
        """
        try:
            there = {name for name in os.listdir(self.folder) if name.endswith(SUFFIXES)}
            for name in self.handles.keys() - there:
                if now_s - self.gone_at.setdefault(name, now_s) >= CLOSE_DELAY_S:
                    del self.gone_at[name]
                    os.close(self.handles.pop(name))
            for name in there - self.handles.keys():
                with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
                    self.handles[name] = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as e:
            log.warning(f"{self.folder}: readers close deleted files themselves now, and answer more slowly: {e}")
            self.close()

    def close(self) -> None:
        for handle in self.handles.values():
            os.close(handle)
        self.handles.clear()
        self.gone_at.clear()

    def __enter__(self) -> Self:
        self.poll(time.monotonic())
        self.thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.over.set()
        self.thread.join()
        self.close()

    def _run(self) -> None:
        while not self.over.wait(POLL_S):
            self.poll(time.monotonic())
