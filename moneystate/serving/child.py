"""Child processes of `moneystate serve`.

A new interpreter, not a fork: gRPC's and librdkafka's threads do not live through one. And not multiprocessing's spawn:
it would import the whole command line, with Spark, into each child.

A child may have as many files open as the system lets it: RocksDB keeps all of its own open, at 8 MB each.
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
    """Runs `run(*args, line)` in a process of its own. `line` closes there when this process is gone."""
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
