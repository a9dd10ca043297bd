"""The sink host: the process that writes to Kafka for all Python workers of a Spark daemon.

Spark moves an output partition's task between workers from batch to batch, but a transactional producer cannot move to
another process (`moneystate.kafka.sink`). So the producers live in this process beside the workers:

    daemon --fork--> sink host     (`start`, before the first worker)
       \\---fork--> worker          has the daemon's end of the door
                      \\--- one end of a socket pair through the door, for each batch of an output partition (`write`)

The door is a pair of sockets that processes inherit. It has no address, so nobody else can open it, and it leaves no
file behind. A connection carries frames of `multiprocessing.connection`: the output partition and the arguments of
`target`, pickled; the operator's rows, unchanged; an empty frame as their end; and back the result or the error,
pickled. The host reads a frame once it has written the one before, so the socket slows the worker down if necessary.

Only the host uses librdkafka and threads, after the fork: neither survives a fork of the daemon. The host ends with the
daemon.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import sys
import threading
import traceback
from _thread import start_new_thread
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any

from moneystate.errors import JobError, MoneystateError
from moneystate.stop_signals import leave_stop_signals

WATCH_MS = 1000  # how often the host checks for the daemon, in case it dies before its workers
END = b""

_door: socket.socket | None = None  # this process's connection to the host; None: there is no host


def start(target: Callable[..., Any]) -> None:
    """Forks the host, which calls `target(*arguments, rows)` to write. Called by the daemon: processes that it forks
    later find the host."""
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
        except ConnectionError:  # the host has stopped reading: it says why, or has died
            return


def _connect() -> Connection:
    assert _door is not None
    mine, its = socket.socketpair()
    with its:
        socket.send_fds(_door, [b"c"], [its.fileno()])
    return Connection(mine.detach())


def _gone() -> JobError:
    return JobError(
        "the process that writes to Kafka for Spark's Python workers has died.",
        "see the log for the cause; start again once it is removed.",
    )


def _stand_alone() -> None:
    """Detaches the host from signals to the job and to the workers, because it ends after them, and from the daemon's
    stdin and stdout, through which the JVM talks to the daemon."""
    os.setpgid(0, 0)
    leave_stop_signals()
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
        """Serves until the daemon has died, or all processes that could use the door have."""
        poller = select.poll()
        poller.register(door, select.POLLIN)
        while os.getppid() == daemon:
            if not poller.poll(WATCH_MS):
                continue
            knock, fds, _, _ = socket.recv_fds(door, 1, 1)
            if not knock:
                return
            # Thread.start() would wait for ever for a thread that has no memory for its first steps. This way such a
            # thread's end closes the socket, which the worker notices.
            start_new_thread(self._batch, (socket.socket(fileno=fds[0]),))

    def _batch(self, client: socket.socket) -> None:
        """One batch of one output partition."""
        with client, Connection(os.dup(client.fileno())) as connection:
            try:
                answer = self._write(client, connection)
            except BaseException as e:
                answer = _as_answer(e)
            with contextlib.suppress(OSError):  # the worker has died: what is committed stays committed, see step 6
                connection.send(answer)

    def _write(self, client: socket.socket, connection: Connection) -> Any:
        place, arguments = connection.recv()
        with self._alone_at(place, client):
            return self.target(*arguments, _frames(connection))

    @contextlib.contextmanager
    def _alone_at(self, place: Hashable, client: socket.socket) -> Iterator[None]:
        """One attempt at a time for an output partition, which is one producer; a newer attempt ends the older one.

        The older attempt may hang. It is told that no more results follow, so it aborts, unless it has all of them and
        commits. The newer attempt waits for that. Both outcomes are safe, also with more than two attempts in any
        order: an aborted batch leaves no producer, and after a committed batch the producer's marker is not the one
        that the same batch follows. In both cases the newer attempt starts a new producer, which ends open transactions
        of the older one, and reads the marker. It writes the batch only if the marker does not have it.
        """
        with self.guard:
            lock = self.places.setdefault(place, threading.Lock())
            older = self.newest.get(place)
            self.newest[place] = client
            if older is not None:
                with contextlib.suppress(OSError):  # its worker may have died
                    older.shutdown(socket.SHUT_RD)
        try:
            with lock:
                yield
        finally:
            with self.guard:
                if self.newest[place] is client:
                    del self.newest[place]


def _frames(connection: Connection) -> Iterator[bytes]:
    """The rows up to their end. Raises JobError if the worker dies first, or is replaced by a newer attempt."""
    try:
        while (frame := connection.recv_bytes()) != END:
            yield frame
    except (EOFError, OSError):
        raise JobError(
            "the sink: expected all results of a batch, found its worker gone or replaced.", "start the job again."
        ) from None


def _as_answer(e: BaseException) -> BaseException:
    """The error in a form that can be pickled. Foreign errors are also logged."""
    if isinstance(e, MoneystateError):
        return e
    traceback.print_exception(e)
    try:
        pickle.loads(pickle.dumps(e))
    except Exception:
        return JobError(f"the process that writes to Kafka failed: {type(e).__name__}: {e}", "see the log.")
    return e
