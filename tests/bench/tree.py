"""Processor time and memory of a process and all that it started."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import psutil

from moneystate.devbroker.java import find_java

EVERY_S = 0.2

S = TypeVar("S")


class Tree(threading.Thread):
    """Samples a process tree until `end`. `cpu_s`: user and system time, of ended processes too; `rss`: peak, bytes;
    `now`: (process id, name, resident bytes) of each process at the last look."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root = psutil.Process(pid)
        self.rss = 0
        self.now: list[tuple[int, str, int]] = []
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
        now = []
        for process in [self.root, *self.root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self.cpu[process.pid] = times.user + times.system
                now.append((process.pid, process.name(), process.memory_info().rss))
        self.now = now
        self.rss = max(self.rss, sum(rss for _, _, rss in now))

    def end(self) -> None:
        self.over.set()
        self.join()


class Sampler(threading.Thread, Generic[S]):
    """Takes a sample every `every_s` seconds, and a last one at the end."""

    def __init__(self, take: Callable[[float], S], every_s: float) -> None:
        super().__init__(daemon=True)
        self.take = take  # makes a sample, given the seconds since the start
        self.every_s = every_s
        self.began = time.monotonic()
        self.samples: list[S] = []
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.wait(self.every_s):
            self._add()

    def _add(self) -> None:
        self.samples.append(self.take(time.monotonic() - self.began))

    def end(self) -> list[S]:
        self.over.set()
        self.join()
        self._add()
        return self.samples


def folder_mb(folder: Path) -> float:
    """Size of all files in it and below."""
    total = 0
    for path in list(folder.rglob("*")):
        with contextlib.suppress(OSError):  # deleted meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total / 2**20


def heap_in_use_mb(pid: int) -> float:
    """What a Java process holds on its heap, after a full collection, which this makes it do. Needs a JDK's jcmd."""
    jcmd = find_java().with_name("jcmd")
    told = subprocess.run([str(jcmd), str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True)
    return int(told.stdout.split()[-1]) / 2**20  # the last line: Total, objects, bytes
