"""Processor time and memory of a process and all that it started."""

from __future__ import annotations

import contextlib
import threading

import psutil

EVERY_S = 0.2


class Tree(threading.Thread):
    """Samples a process tree until `end`. `cpu_s`: user and system time, of ended processes too; `rss`: peak, bytes."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root = psutil.Process(pid)
        self.rss = 0
        self.cpu: dict[int, float] = {}
        self.over = threading.Event()
        self.start()

    @property
    def cpu_s(self) -> float:
        return sum(self.cpu.values())

    def run(self) -> None:
        while not self.over.wait(EVERY_S):
            with contextlib.suppress(psutil.Error):
                self._sample()

    def _sample(self) -> None:
        rss = 0
        for process in [self.root, *self.root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self.cpu[process.pid] = times.user + times.system
                rss += process.memory_info().rss
        self.rss = max(self.rss, rss)

    def end(self) -> None:
        self.over.set()
        self.join()
