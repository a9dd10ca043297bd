"""One machine of a cluster, as far as the job is concerned: all processes of a session, which run commands of
`moneystate` and may be killed, frozen, starved, or given another clock."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path

import psutil

from tests.job.harness import Finished, kill_session, processes_of
from tests.job.warm import Warm

POLL_S = 0.02
HANGS_S = 900.0  # far past any run, also on a machine with ten times as much to do as it has cores
GO = "go"


class Machine:
    """It starts with its first command, and again after it was killed."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True)
        self.asked, self.paused = folder / "asked", folder / "paused"
        self.asked.write_text("")
        held = {"MONEYSTATE_PAUSE_AT": f"@{self.asked}", "MONEYSTATE_PAUSE_FILE": str(self.paused)}
        self.warm = Warm({**held, **(env or {})})
        self.threads = ThreadPoolExecutor(1)

    def start(self, arguments: Sequence[str], folder: Path, hold: str = "") -> Life:
        """`hold`: `step@batch` at which it waits, empty: nowhere."""
        self.paused.unlink(missing_ok=True)
        self.asked.write_text(hold)
        return Life(self, arguments, folder)

    def run(self, arguments: Sequence[str], folder: Path) -> Finished:
        return self.start(arguments, folder).finish()

    def processes(self) -> list[psutil.Process]:
        return [] if self.warm.pid is None else processes_of(self.warm.pid)

    def kill(self) -> None:
        if self.warm.pid is not None:
            kill_session(self.warm.pid)

    def close(self) -> None:
        self.kill()
        self.threads.shutdown()


class Life:
    """One command on a machine, from its start to its end."""

    def __init__(self, machine: Machine, arguments: Sequence[str], folder: Path) -> None:
        self.machine = machine
        self.folder = Path(tempfile.mkdtemp(dir=folder, prefix="run-"))
        self.begun = time.monotonic()
        self.session = machine.warm.pid
        self._code: Future[int] = machine.threads.submit(machine.warm.run, arguments, self.folder, HANGS_S)

    def is_over(self) -> bool:
        return self._code.done()

    def held(self) -> bool:
        """Waits until it is at its failpoint. False: it ended without having been there."""
        while not self.machine.paused.exists():
            if self.is_over():
                return self.machine.paused.exists()
            time.sleep(POLL_S)
        return True

    def release(self) -> None:
        self.machine.paused.write_text(GO)

    def processes(self, wanted: str) -> list[psutil.Process]:
        """Those of one kind, empty if there are none now."""
        return [p for p, kind in kinds_of(self.machine.processes()) if wanted in ("all", kind)]

    def signal(self, kind: str, number: signal.Signals) -> int:
        """To all processes of this kind; how many there were."""
        there = self.processes(kind)
        for process in there:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        return len(there)

    def finish(self, deadline_s: float = HANGS_S) -> Finished:
        """Code -9: it was killed."""
        try:
            code = self._code.result(deadline_s)
        except (TimeoutError, NotYet, BrokenPipeError):  # its process is gone
            code = -9
        return Finished(code, self._text("out"), self._text("err"))

    def _text(self, name: str) -> str:
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""


def kinds_of(processes: Sequence[psutil.Process]) -> list[tuple[psutil.Process, str]]:
    """The kind of each process: driver, jvm, planner (Spark's process for the Python source), daemon, sink host (what a
    daemon forks first), worker, other."""
    seen: list[tuple[psutil.Process, str]] = []
    daemons: dict[int, bool] = {}  # whether its sink host was seen
    for process in sorted(processes, key=lambda p: p.pid):
        try:
            command, parent, name = " ".join(process.cmdline()), process.ppid(), process.name()
        except psutil.Error:
            continue
        kind = "other"
        if "tests.job.warm" in command or "moneystate.cli.main" in command:
            kind = "driver"
        elif "org.apache.spark" in command:
            kind = "jvm"
        elif name == "python_streamin":  # forks of the fork server are named by their module, cut off by the kernel
            kind = "planner"
        elif name == "worker" and parent not in daemons:
            kind, daemons[process.pid] = "daemon", False
        elif name == "worker":
            kind, daemons[parent] = ("worker" if daemons[parent] else "sink host"), True
        seen.append((process, kind))
    return seen
