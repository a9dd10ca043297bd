"""A child process of the server by itself."""

from __future__ import annotations

import resource
from multiprocessing.connection import Connection

from moneystate.serving import child

FEW = 256


def tell_limits(line: Connection) -> None:
    line.send(resource.getrlimit(resource.RLIMIT_NOFILE))


def test_a_child_may_have_as_many_files_open_as_the_system_lets_it() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))
    try:
        started = child.start("limits", tell_limits)
        assert started.line.recv() == (hard, hard)
        assert started.process.wait() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
