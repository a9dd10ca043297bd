"""The sink host: the process that writes to Kafka for all Python workers of a Spark daemon.

Spark hands an output partition's task to another worker from batch to batch, and a transactional producer can only go
on in the process that it lives in (`moneystate.kafka.sink`). So the producers live here, a process beside the workers:

    daemon --fork--> sink host     (`start`, before the first worker)
       \\---fork--> worker          has the daemon's end of the door
                      \\--- one end of a socket pair through the door, for each batch of an output partition (`write`)

The door is a pair of sockets that goes on by inheritance: it has no address, so nobody else can open it and no file is
left behind. A connection carries, in frames of `multiprocessing.connection`: the output partition and the arguments of
`target`, pickled; then the operator's rows as they are; an empty frame as their end; and back the answer or
the error, pickled. The host reads a frame when it has written the one before, and the socket holds the worker back.

librdkafka and threads are for the host alone, after the fork: what a daemon has of them does not live on in its
children. The host ends with the daemon.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any

from moneystate.errors import JobError, MoneystateError

WATCH_MS = 1000  # how often the host looks whether the daemon is there, for one that dies while its workers live on
END = b""

_door: socket.socket | None = None  # this process's way to the host, where there is one


def start(target: Callable[..., Any]) -> None:
    """Fork the host, which writes by `target(*arguments, rows)`. For the daemon: processes that it forks from then
    on find the host."""
    global _door
    daemon = os.getpid()
    _door, inner = socket.socketpair()
    if os.fork():
        inner.close()
        return
    try:
        _door.close()
        _stand_alone()
        _Host(target).serve(inner, daemon)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def is_there() -> bool:
    return _door is not None


def write(place: Hashable, arguments: tuple[Any, ...], rows: Iterable[bytes]) -> Any:
    """Returns what the host's target returns for `arguments` and `rows`. `place`: the output partition, unique among
    all that the host may serve. Raises what the target raises, and JobError if the host is gone."""
    try:
        connection = _connect()
    except OSError:
        raise _gone() from None
    with connection:
        _send_all(connection, chain([pickle.dumps((place, arguments))], rows, [END]))
        try:
            answer = connection.recv()
        except (EOFError, OSError):
            raise _gone() from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _send_all(connection: Connection, frames: Iterable[bytes]) -> None:
    for frame in frames:
        try:
            connection.send_bytes(frame)
        except ConnectionError:  # the host reads no further: it says why, or is gone
            return


def _connect() -> Connection:
    assert _door is not None
    mine, its = socket.socketpair()
    with its:
        socket.send_fds(_door, [b"c"], [its.fileno()])
    return Connection(mine.detach())


def _gone() -> JobError:
    return JobError(
        "the process that writes to Kafka for Spark's Python workers is gone.",
        "see the log for why; start again once the cause is gone.",
    )


def _stand_alone() -> None:
    """Ctrl-C and what ends the workers is not for the host: it ends after them. The daemon's stdin and stdout are how
    the JVM talks to it."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(sys.stderr.fileno(), 1)


class _Host:
    """`places`: by output partition, its lock; `newest`: the connection that came last for it."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target
        self.guard = threading.Lock()
        self.places: dict[Hashable, threading.Lock] = {}
        self.newest: dict[Hashable, socket.socket] = {}

    def serve(self, door: socket.socket, daemon: int) -> None:
        """Until the daemon is gone, or all that could come through the door are."""
        poller = select.poll()
        poller.register(door, select.POLLIN)
        while os.getppid() == daemon:
            if not poller.poll(WATCH_MS):
                continue
            knock, fds, _, _ = socket.recv_fds(door, 1, 1)
            if not knock:
                return
            threading.Thread(target=self._batch, args=(socket.socket(fileno=fds[0]),), daemon=True).start()

    def _batch(self, client: socket.socket) -> None:
        """One batch of one output partition."""
        with client, Connection(os.dup(client.fileno())) as connection:
            try:
                answer = self._write(client, connection)
            except BaseException as e:
                answer = _as_answer(e)
            with contextlib.suppress(OSError):  # a worker that is gone: what is committed stays so, see step 6
                connection.send(answer)

    def _write(self, client: socket.socket, connection: Connection) -> Any:
        place, arguments = connection.recv()
        with self._alone_at(place, client):
            return self.target(*arguments, _frames(connection))

    @contextlib.contextmanager
    def _alone_at(self, place: Hashable, client: socket.socket) -> Iterator[None]:
        """One attempt at a time for an output partition, which is one producer; a newer attempt ends the older one.

        The older one may hang: it is told that no more results come, so it aborts, unless it has them all and commits.
        The newer one waits for that. It is safe whichever happens, and whatever order more than two come in: a batch
        that was aborted leaves no producer, and after one that was committed the producer's marker is not the one that
        the same batch follows. Either way the newer attempt begins a new producer, which ends what the older one may
        have left open, and reads the marker: it writes the batch where it is not there, else nothing.
        """
        with self.guard:
            lock = self.places.setdefault(place, threading.Lock())
            older = self.newest.get(place)
            self.newest[place] = client
            if older is not None:
                with contextlib.suppress(OSError):  # its worker may be gone
                    older.shutdown(socket.SHUT_RD)
        try:
            with lock:
                yield
        finally:
            with self.guard:
                if self.newest[place] is client:
                    del self.newest[place]


def _frames(connection: Connection) -> Iterator[bytes]:
    """The rows up to their end. Raises JobError where the worker dies before, or gives way to a newer attempt."""
    try:
        while (frame := connection.recv_bytes()) != END:
            yield frame
    except (EOFError, OSError):
        raise JobError(
            "the sink: expected all results of a batch, found its worker gone or replaced.", "start the job again."
        ) from None


def _as_answer(e: BaseException) -> BaseException:
    """An error as it can travel; what is not ours is in the log, too."""
    if isinstance(e, MoneystateError):
        return e
    traceback.print_exception(e)
    try:
        pickle.loads(pickle.dumps(e))
    except Exception:
        return JobError(f"the process that writes to Kafka failed: {type(e).__name__}: {e}", "see the log.")
    return e
