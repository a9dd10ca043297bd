"""Child processes of `moneystate serve`.

A child is a new interpreter. It is not a fork, because the threads of gRPC and librdkafka do not survive one, and not
multiprocessing's spawn, which would import the whole command line, with Spark, into each child.

A child logs as this process does. If that is JSON, this process also reads the child's stderr, and makes a line of the
log of everything else in it: libraries in C write there, and so does a Python that crashes.

A child raises its limit of open files to the system's maximum, because RocksDB keeps all of its files of 8 MB open.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import IO, Any

from moneystate import log
from moneystate.open_files import raise_limit

_log = log.get_log(__name__)


@dataclass(frozen=True)
class Child:
    """A child process of the server."""

    name: str
    process: subprocess.Popen[bytes]
    line: Connection  # what the child reports; closed when the child has ended
    errors: threading.Thread | None = None  # reads its stderr to the end


def start(name: str, run: Callable[..., None], *args: Any) -> Child:
    """Runs `run(*args, line)` in a new process. `line` closes there when this process ends."""
    ours, theirs = multiprocessing.Pipe()
    with theirs:
        number = theirs.fileno()
        errors = subprocess.PIPE if log.is_json() else None
        process = subprocess.Popen([sys.executable, "-m", __name__, str(number)], pass_fds=[number], stderr=errors)
    ours.send((log.settings(), name, run, args))
    reader = None
    if process.stderr is not None:
        reader = threading.Thread(target=_pass_on, args=(name, process.stderr), name=f"log of {name}", daemon=True)
        reader.start()
    return Child(name, process, ours, reader)


def _pass_on(name: str, lines: IO[bytes]) -> None:
    for line in lines:
        text = line.decode(errors="replace").rstrip()
        if log.is_line(text):
            log.write(text)
        elif text:
            _log.warning(text, process=name)


def main() -> None:
    raise_limit()
    line: Connection = Connection(int(sys.argv[1]))
    settings, name, run, args = line.recv()
    if settings is not None:
        log.set_up(settings.level, as_json=settings.as_json, **settings.about, process=name)
    run(*args, line)


if __name__ == "__main__":
    main()
