"""A TCP proxy before the database, which can lose the answer to a COMMIT or cut all connections."""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Self

COMMIT = b"COMMIT\x00"


class Proxy:
    """Passes bytes on, in both directions, each connection in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lose_commits = threading.Semaphore(0)  # how many answers to a COMMIT are lost
        self.lost = 0
        self.refusing = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Cuts all connections."""
        for one in self._open:
            one.close()
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, server]
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        """After a chosen COMMIT the server's answer is awaited and thrown away."""
        with selectors.DefaultSelector() as ready, client, server:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            losing = False
            try:
                while True:
                    for key, _ in ready.select():
                        source: socket.socket = key.fileobj  # type: ignore[assignment]
                        data = source.recv(65_536)
                        if not data:
                            return
                        if source is client and COMMIT in data and self.lose_commits.acquire(blocking=False):
                            losing = True
                        if source is server and losing:
                            self.lost += 1
                            return
                        key.data.sendall(data)
            except OSError:
                return
