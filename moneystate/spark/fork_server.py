"""The fork server: Spark's Python processes are forks of one process that has imported what they need.

Before the first batch, Spark starts half a dozen Python processes, most of them one after the other: to look the data
source up, to make it, to plan with it, to plan its reads, and the daemons of the workers. Each would spend up to 0.8 s
on the same imports. The server imports while the JVM starts, so that a fork costs 20 ms:

    JVM --exec--> fork_client.py --request--> server --fork--> Spark's Python process

The server is for a JVM of this machine that the job starts itself. It ends with the process that started it, its forks
end with their clients. It has no threads and no connections, which would not survive the fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from moneystate.spark.fork_client import CODE, SERVER, SIZE, SOCKET
from moneystate.stop_signals import leave_stop_signals

# Spark's scripts set this for the JVM and so for its Python. numpy gets no threads.
ENVIRONMENT: Final = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"}
NAME: Final = Path("/proc/self/comm")  # what `ps` shows of this process and its forks: the first 15 characters count
WAITING: Final = 64  # requests: Spark starts a few processes

_running: subprocess.Popen[bytes] | None = None  # of this process


def start(folder: Path, log: IO[bytes] | int) -> None:
    """Starts the server of this process, unless it runs. Its socket is in `folder`, which must be the user's alone.
    JVMs that are started from now on find it by their environment. `log`: for what it prints."""
    global _running
    if _running is not None and _running.poll() is None:
        return
    place = folder / "forks"
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-m", __name__, str(place)]
    environment = {**os.environ, **ENVIRONMENT}
    _running = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env=environment,
        preexec_fn=leave_stop_signals,  # its forks ignore them, too
    )
    os.environ[SERVER] = str(place)


class Request(NamedTuple):
    """A Python process: MODULE ARGUMENTS, its folder and its environment."""

    words: list[str]
    folder: str
    environment: dict[str, str]

    def become(self, path: list[str]) -> None:
        """Runs the module in this process. `path`: where modules of Python and its packages are."""
        with contextlib.suppress(OSError):  # only Linux has it; other systems show the server's name
            NAME.write_text(self.words[-1].rpartition(".")[2])
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        own = self.environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [self.folder, *filter(None, own), *path]
        sys.argv = self.words
        runpy.run_module(self.words[0], run_name="__main__", alter_sys=True)


class Server:
    def __init__(self, folder: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        here = Path.cwd()
        os.chdir(folder)
        self.listener.bind(f".{SOCKET}")
        self.listener.listen(WAITING)
        os.rename(f".{SOCKET}", SOCKET)  # it appears when it can be connected to
        os.chdir(here)
        self.ended, wakeup = socket.socketpair()  # readable when a fork has ended
        wakeup.setblocking(False)
        self.wakeup = wakeup
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        self.clients: dict[int, socket.socket] = {}  # by the process number of their fork

    def serve(self) -> Request | None:
        """Returns in each fork, with what it must become; and None once standard input has ended, as it does with the
        process that has started the server."""
        poller = select.poll()
        for source in (0, self.listener, self.ended):
            poller.register(source, select.POLLIN)
        while True:
            there = {number for number, _ in poller.poll()}
            if 0 in there:
                return None
            if self.ended.fileno() in there:
                self.ended.recv(4096)
                self._reap(poller)
            for pid, client in self.clients.items():
                if client.fileno() in there:  # it never writes again, so it has ended
                    poller.unregister(client)
                    os.kill(pid, signal.SIGKILL)
            if self.listener.fileno() in there:
                request = self._fork(poller)
                if request is not None:
                    return request

    def _reap(self, poller: select.poll) -> None:
        while self.clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            client = self.clients.pop(pid)
            with client:
                try:
                    poller.unregister(client)
                    client.send((os.waitstatus_to_exitcode(status) % 256).to_bytes(CODE, "big"))
                except (KeyError, OSError):  # it has ended before its fork
                    continue

    def _fork(self, poller: select.poll) -> Request | None:
        """None: in the server."""
        client, _ = self.listener.accept()
        try:
            request, streams = _received(client)
        except OSError:  # the client has ended
            client.close()
            return None
        pid = os.fork()
        if not pid:
            self._leave([*self.clients.values(), client], streams)
            return request
        for stream in streams:
            os.close(stream)
        self.clients[pid] = client
        poller.register(client, select.POLLIN)
        try:
            client.sendall(pid.to_bytes(SIZE, "big"))
        except OSError:
            return None  # the poller notices it, too
        return None

    def _leave(self, clients: list[socket.socket], streams: list[int]) -> None:
        """Gives up, in a fork, everything of the server, and takes the client's streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for mine in (*clients, self.listener, self.ended, self.wakeup):
            mine.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)


def _received(client: socket.socket) -> tuple[Request, list[int]]:
    """A request and the client's standard streams. Raises OSError if it is not whole."""
    head, streams, _, _ = socket.recv_fds(client, SIZE, 3)
    with client.makefile("rb") as body:
        content = body.read(int.from_bytes(head, "big"))
    try:
        words, folder, environment = json.loads(content)
    except ValueError:
        for stream in streams:
            os.close(stream)
        raise ConnectionError("a request was cut off") from None
    return Request(words, folder, environment), streams


def _nothing(*_: Any) -> None:
    """Handles a signal that only has to wake the server up."""


def main() -> None:
    os.setpgid(0, 0)
    here, own = os.getcwd(), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [folder for folder in sys.path if folder not in ("", here, *own)]
    server = Server(Path(sys.argv[1]))
    from moneystate.spark.preload import MODULES, OF_ALL, preload

    preload((*MODULES, *OF_ALL))
    request = server.serve()
    if request is not None:
        request.become(path)


if __name__ == "__main__":
    main()
