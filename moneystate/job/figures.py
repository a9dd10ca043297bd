"""Figures of a batch that only the metrics show. No result depends on them."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import psutil

MEMORY_EVERY_S = 10.0  # listing processes takes some milliseconds


class GroupFigures(NamedTuple):
    """The figures of one key group."""

    source_ms: int = 0  # the slowest source task
    operator_s: float = 0.0
    state_bytes: int = 0  # of all segments


@dataclass
class Figures:
    """The figures of a batch. Output partitions run side by side, so the batch takes as long as the slowest."""

    source_s: float = 0.0
    operator_s: float = 0.0
    sink_s: float = 0.0  # producing outputs and changes
    commit_s: float = 0.0  # waiting for the broker to commit them
    producers: int = 0  # started in this batch
    state_bytes: int = 0
    memory_bytes: dict[str, int] = field(default_factory=dict)  # of the Python workers, by HOST PROCESS of their daemon

    def add(self, group: GroupFigures) -> None:
        """Adds a key group of an output partition, whose key groups run one after the other."""
        self.source_s = max(self.source_s, group.source_ms / 1000)
        self.operator_s += group.operator_s
        self.state_bytes += group.state_bytes

    def merge(self, other: Figures) -> None:
        """Adds the figures of another output partition."""
        self.source_s = max(self.source_s, other.source_s)
        self.operator_s = max(self.operator_s, other.operator_s)
        self.sink_s = max(self.sink_s, other.sink_s)
        self.commit_s = max(self.commit_s, other.commit_s)
        self.producers += other.producers
        self.state_bytes += other.state_bytes
        self.memory_bytes.update(other.memory_bytes)


class Stopwatch:
    """The time that all of its blocks took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.begun = 0.0

    def __enter__(self) -> None:
        self.begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.monotonic() - self.begun


class WorkerMemory:
    """The memory of the Python workers on this machine. They are children of Spark's daemon, as this process is."""

    def __init__(self) -> None:
        self.looked_at = float("-inf")
        self.bytes = 0

    def by_daemon(self) -> dict[str, int]:
        now = time.monotonic()
        if now - self.looked_at >= MEMORY_EVERY_S:
            self.looked_at, self.bytes = now, self._sum()
        return {f"{socket.gethostname()} {os.getppid()}": self.bytes}

    def _sum(self) -> int:
        try:
            return sum(_resident(process) for process in psutil.Process(os.getppid()).children())
        except psutil.Error:  # the daemon has ended
            return self.bytes


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # a worker that has just ended
        return 0


WORKER_MEMORY = WorkerMemory()
