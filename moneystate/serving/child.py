"""Child processes of `moneystate serve`.

A child is a new interpreter. It is not a fork, because the threads of gRPC and librdkafka do not survive one, and not
multiprocessing's spawn, which would import the whole command line, with Spark, into each child.

A child raises its limit of open files to the system's maximum, because RocksDB keeps all of its files of 8 MB open.
"""

from __future__ import annotations

import multiprocessing
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any


@dataclass(frozen=True)
class Child:
    """A child process of the server."""

    name: str
    process: subprocess.Popen[bytes]
    line: Connection  # what the child reports; closed when the child has ended


def start(name: str, run: Callable[..., None], *args: Any) -> Child:
    """Runs `run(*args, line)` in a new process. `line` closes there when this process ends."""
    ours, theirs = multiprocessing.Pipe()
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen([sys.executable, "-m", __name__, str(number)], pass_fds=[number])
    ours.send((run, args))
    return Child(name, process, ours)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    line: Connection = Connection(int(sys.argv[1]))
    run, args = line.recv()
    run(*args, line)


if __name__ == "__main__":
    main()
