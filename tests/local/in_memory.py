"""Commands of `moneystate` in this process, on a log in memory: jobs run without a broker and without Spark."""

from __future__ import annotations

import contextlib
import ctypes
import io
import itertools
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

from moneystate.cli import main
from moneystate.kafka import claims, ranges, sink
from moneystate.kafka.failpoints import REACHED
from tests.job.harness import RUN_S, Finished, Setup
from tests.log_lines import kinds
from tests.waiting import until

KILL_S = 0.2  # until a thread that was in a call of C is told again
NO_PROCESS = itertools.count(2**24)  # Linux gives no such numbers to processes


def _other_process() -> str:
    """Runs claim output partitions as processes of their own, which have ended."""
    return f"host {socket.gethostname()}, process {next(NO_PROCESS)}, since {datetime.now(UTC).isoformat()}"


class Killed(BaseException):
    """Ends a run at a step, as a kill would: nothing that handles errors may handle it."""


def command(arguments: Iterable[object], err: io.StringIO | None = None) -> Finished:
    """One command to its end. `err`: what it writes to stderr."""
    out, err = io.StringIO(), err or io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["moneystate", *map(str, arguments)]),
        patch.object(claims, "this_process", _other_process),
    ):
        try:
            main.main()
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        finally:
            _forget()
    return Finished(code, out.getvalue(), err.getvalue())


def good(arguments: Iterable[object]) -> Finished:
    """One command to its end, which has to be a good one."""
    done = command(arguments)
    assert done.code == 0, done.out + done.err
    return done


class Running:
    """A command in a thread. Leaving the `with` block kills it if it still runs.

    Only the main thread may handle signals: the command's handlers are kept here, and called by `stop`.
    """

    def __init__(self, arguments: Iterable[object]) -> None:
        self._arguments = list(arguments)
        self._done: list[Finished] = []
        self._err = io.StringIO()
        self._handlers: dict[int, Any] = {}
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.kill()

    def _run(self) -> None:
        with patch.object(signal, "signal", self._handlers.__setitem__), contextlib.suppress(Killed):
            self._done.append(command(self._arguments, self._err))

    def err(self) -> str:
        return self._err.getvalue()

    def wait_for(self, condition: Callable[[], object], description: str) -> None:
        """Raises AssertionError if the command ends before."""
        until(lambda: condition() or not self._thread.is_alive(), lambda: f"not {description}:\n{self.err()}", RUN_S)
        assert self._thread.is_alive(), f"ended before {description}:\n{self.err()}"

    def check(self) -> None:
        """Raises AssertionError if it has ended."""
        assert self._thread.is_alive(), self.err()

    def end(self) -> None:
        """Waits for its end."""
        self._thread.join(RUN_S)
        assert not self._thread.is_alive(), self.err()

    def stop(self) -> Finished:
        """As SIGTERM does it."""
        until(lambda: signal.SIGTERM in self._handlers, self.err, RUN_S)
        self._handlers[signal.SIGTERM](signal.SIGTERM, None)
        return self.finish()

    def finish(self) -> Finished:
        self.end()
        assert self._done, self.err()
        return self._done[0]

    def kill(self) -> None:
        """Wherever it is. Does nothing if it has ended."""
        while self._thread.is_alive():
            assert self._thread.ident is not None
            raised = ctypes.py_object(Killed)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), raised)
            self._thread.join(KILL_S)


class InMemory(Setup):
    """`bootstrap_servers` is the address of a log in memory."""

    def arguments(self, *more: str) -> list[str]:
        return super().arguments(*more, *(["--local"] if "--local" not in more else []))

    def run(self, *more: str) -> Finished:
        return good(self.arguments(*more))

    def command(self, name: str, *more: object) -> Finished:
        """Another command, which reads the same log."""
        return good([name, "--bootstrap-servers", self.bootstrap_servers, *more])

    def refused(self, *more: str, deadline_s: float = RUN_S) -> Finished:
        done = command(self.arguments(*more))
        assert done.code not in (0, 1), done.err
        assert kinds(done.err) == ["error:"], done.err
        assert done.out == ""
        return done

    def running(self, *more: str) -> Running:
        return Running(self.arguments(*more))

    def kill_at(self, step: str, *more: str) -> None:
        """Runs until it has come to `step` (`step@batch`), and no further. The next run begins as a new process."""
        with killed_at(step):
            command(self.arguments(*more))


@contextmanager
def killed_at(step: str) -> Iterator[None]:
    def reached(name: str, batch: int) -> None:
        if step == f"{name}@{batch}":
            raise Killed

    with patch.object(REACHED, "step", reached):
        try:
            yield
        except Killed:
            return
    raise AssertionError(f"the run ended before {step}")


def _forget() -> None:
    """Drops what a process keeps from batch to batch: the next command is another process."""
    ranges.discard_readers()
    sink._sinks.clear()
    sink._marker_logs.clear()
