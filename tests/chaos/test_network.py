"""The network of the schedules: what it does to bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos.network import Proxy
from tests.ports import free_port
from tests.waiting import until

WITHIN_S = 10.0


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Before a server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    def echo(connection: socket.socket) -> None:
        with connection:
            while got := connection.recv(1024):
                connection.sendall(got)

    threading.Thread(target=serve, daemon=True).start()
    proxy = Proxy(free_port(), server.getsockname()[1])
    yield proxy
    proxy.close()
    server.close()


def connect(proxy: Proxy) -> socket.socket:
    host, _, port = proxy.address.rpartition(":")
    return socket.create_connection((host, int(port)), WITHIN_S)


def test_bytes_pass_in_both_directions(proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(1024) == b"hello"


def test_a_cut_ends_connections_and_refuses_new_ones_until_it_is_healed(proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(1024) == b"hello"
        proxy.cut()
        assert client.recv(1024) == b""
    with connect(proxy) as client:
        assert client.recv(1024) == b""
    proxy.heal()
    with connect(proxy) as client:
        client.sendall(b"again")
        assert client.recv(1024) == b"again"


def test_a_silent_network_keeps_all_bytes(proxy: Proxy) -> None:
    with connect(proxy) as client:
        proxy.open.clear()
        client.sendall(b"hello")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1024)
        proxy.heal()
        client.settimeout(WITHIN_S)
        assert client.recv(1024) == b"hello"
    until(lambda: not proxy.connections, lambda: "connections are left", WITHIN_S)
