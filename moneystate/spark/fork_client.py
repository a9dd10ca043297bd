"""Stands for a process that the fork server has forked: `python fork_client.py -m MODULE ARGUMENTS...`.

Spark starts this program where it would start Python. The fork gets its standard streams, environment, folder and
arguments. This program ends when the fork does, with its exit code. Without a fork server it becomes Python itself. It
imports little, because its start is all that a fork costs.

It and the fork ignore SIGTERM, which a service manager sends to every process of the job. Spark ends a process by
SIGTERM and by closing its standard input, so the end of the input decides, which the end of Spark causes, too.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

SERVER = "MONEYSTATE_FORK_SERVER"  # the folder of its socket
SOCKET = "socket"  # its name there: a path of a socket may have 107 bytes
APPEARS_S = 5.0  # of a server that has just been started; it takes 0.1 s on an idle machine
ENDS_S = 5.0  # a fork after the end of its input; Spark's daemon takes milliseconds
SIZE, CODE = 4, 2  # bytes of a request's length and a process's number, and of an exit code


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    python, here = os.environ["MONEYSTATE_PYTHON"], os.getcwd()
    connection = socket.socket(socket.AF_UNIX)
    try:
        pid = _ask(connection, here)
    except OSError:
        os.chdir(here)
        os.execv(python, [python, *sys.argv[1:]])
    _await_end(connection, pid)
    code = connection.recv(CODE)
    if not code:  # the server is gone, and nobody else watches the fork
        os.kill(pid, signal.SIGKILL)
    os._exit(int.from_bytes(code, "big") if code else 1)


def _await_end(connection: socket.socket, pid: int) -> None:
    """Waits until the fork has ended, or the server has. Kills a fork that does not end after its input has."""
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    poller.register(0, 0)  # tells only that the other side has closed it
    if connection.fileno() in dict(poller.poll()):
        return
    poller.unregister(0)
    if not poller.poll(1000 * ENDS_S):
        os.kill(pid, signal.SIGKILL)


def _ask(connection: socket.socket, here: str) -> int:
    """The fork's process number. Raises OSError if there is no server."""
    request = json.dumps([sys.argv[2:], here, dict(os.environ)]).encode()
    os.chdir(os.environ[SERVER])
    deadline = time.monotonic() + APPEARS_S
    while not os.path.exists(SOCKET) and time.monotonic() < deadline:
        time.sleep(0.01)
    connection.connect(SOCKET)
    socket.send_fds(connection, [len(request).to_bytes(SIZE, "big")], [0, 1, 2])
    connection.sendall(request)
    pid = connection.recv(SIZE)
    if len(pid) < SIZE:
        raise ConnectionError
    return int.from_bytes(pid, "big")


if __name__ == "__main__":
    main()
