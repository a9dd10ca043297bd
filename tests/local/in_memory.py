"""Commands of `moneystate` in this process, on a log in memory: jobs run without a broker and without Spark."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from unittest.mock import patch

from moneystate.cli import main
from moneystate.kafka import ranges, sink
from moneystate.kafka.failpoints import REACHED
from tests.job.harness import RUN_S, Finished, Setup
from tests.log_lines import kinds


class Killed(BaseException):
    """Ends a run at a step, as a kill would: nothing that handles errors may handle it."""


def command(arguments: Iterable[object]) -> Finished:
    """One command to its end."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["moneystate", *map(str, arguments)]):
        try:
            main.main()
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
    return Finished(code, out.getvalue(), err.getvalue())


class InMemory(Setup):
    """`bootstrap_servers` is the address of a log in memory."""

    def arguments(self, *more: str) -> list[str]:
        return super().arguments(*more, *(["--local"] if "--local" not in more else []))

    def run(self, *more: str) -> Finished:
        done = command(self.arguments(*more))
        assert done.code == 0, done.out + done.err
        return done

    def refused(self, *more: str, deadline_s: float = RUN_S) -> Finished:
        done = command(self.arguments(*more))
        assert done.code not in (0, 1), done.err
        assert kinds(done.err) == ["error:"], done.err
        assert done.out == ""
        return done

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
            forget_process()
            return
    raise AssertionError(f"the run ended before {step}")


def forget_process() -> None:
    """Drops what a process keeps from batch to batch."""
    ranges.discard_readers()
    sink._sinks.clear()
    sink._marker_logs.clear()
