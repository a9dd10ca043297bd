"""The socket and the server of commands that answer HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from moneystate.errors import SetupError
from moneystate.serving import addresses


@contextmanager
def bound(listen: str) -> Iterator[socket.socket]:
    """A socket with the address. Raises SetupError if another process has it."""
    host, port = addresses.split(listen, "--listen")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as e:
        listening.close()
        raise SetupError(
            f"--listen {listen}: expected a free port, but {e.strerror}.",
            "stop the process that has it, or give another port.",
        ) from None
    with listening:
        yield listening


def address_of(listening: socket.socket) -> str:
    """HOST:PORT."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Server(uvicorn.Server):
    """Leaves signals to the process, which ends it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
