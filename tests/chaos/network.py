"""A network between the job and the broker that can be slow, thin, cut or silent.

The broker has a second listener, which it advertises at the proxy's address. So clients that start with the proxy stay
behind it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import NamedTuple

from tests.ports import free_ports

CHUNK = 64 * 1024


class Ports(NamedTuple):
    broker: int
    inner: int  # of the second listener
    outer: int  # of the proxy, where the second listener is advertised


def second_listener() -> tuple[dict[str, str], Ports]:
    """A broker's settings."""
    port, inner, controller, outer = free_ports(4)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{inner},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{outer}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    return settings, Ports(port, inner, outer)


class Proxy:
    """Passes bytes on. What it does to them can be changed at any time."""

    def __init__(self, port: int, target: int) -> None:
        self.target = target
        self.delay_s = 0.0  # of each chunk
        self.bytes_s: float | None = None  # of each direction of a connection; None: no limit
        self.open = threading.Event()  # cleared: silent, all bytes wait
        self.open.set()
        self.refusing = False
        self.connections: set[socket.socket] = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def cut(self) -> None:
        """All connections are reset, and new ones too, until `heal`."""
        self.refusing = True
        self._reset()

    def heal(self) -> None:
        self.delay_s, self.bytes_s, self.refusing = 0.0, None, False
        self.open.set()

    def close(self) -> None:
        self.heal()
        self.listener.close()
        self._reset()

    def _reset(self) -> None:
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:  # closed
                return
            if self.refusing:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.connections |= {near, far}
            for one, other in ((near, far), (far, near)):
                with contextlib.suppress(OSError):  # the other direction has already ended
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK):
                self.open.wait()
                wait_s = self.delay_s + (len(chunk) / self.bytes_s if self.bytes_s else 0.0)
                if wait_s:
                    time.sleep(wait_s)
                sink.sendall(chunk)
        with self.lock:
            self.connections -= {source, sink}
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
