"""Ports for servers that tests start."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_port() -> int:
    """One on loopback that nobody has at the moment."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ones: a port that was let go may be given again at once."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
