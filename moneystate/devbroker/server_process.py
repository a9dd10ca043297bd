"""The process of a server in Java: found by the record in its folder, and ended by its id.

It ends with the process that started it, unless it is detached.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

import moneystate
from moneystate.devbroker.record import ServerRecord, remove_record, running_process, write_record

ADDRESS: Final = "127.0.0.1"
# A clean stop takes 0.4 s. After this time the server is killed.
STOP_TIMEOUT_S: Final = 20.0
LOG_TAIL_LINES: Final = 12


class ServerProcess:
    """The server whose configuration, log and process record are in one folder."""

    def __init__(self, folder: Path, log_name: str = "log") -> None:
        self._folder = folder
        self.log_file = folder / log_name
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> ServerRecord | None:
        """The record of the server that runs on this folder, whoever started it."""
        live = running_process(self._folder)
        return live[0] if live else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process that this object has started; None: it runs."""
        assert self._child is not None
        return self._child.poll()

    def spawn(
        self, command: Sequence[str], port: int, environment: Mapping[str, str] | None = None, *, detach: bool = False
    ) -> None:
        # It runs in its own session, so that Ctrl-C in the terminal only reaches the starter, which then stops the
        # server cleanly.
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
                env={**os.environ, **(environment or {})},
            )  # fmt: skip
        write_record(self._folder, self._child.pid, port)
        if not detach:
            root = str(Path(moneystate.__file__).parent.parent)
            self._watcher = subprocess.Popen(
                [sys.executable, "-m", "moneystate.devbroker", "watch", str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
            )

    def stop(self) -> None:
        """Stops the server cleanly, or with SIGKILL if that takes too long. Does nothing if none runs."""
        self._end(signal.SIGTERM)
        remove_record(self._folder)

    def kill(self) -> None:
        """Sends SIGKILL, like a crash. The process record stays behind."""
        self._end(signal.SIGKILL)

    def log_tail(self) -> str:
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        # Stack frames are left out, because they would displace the lines of the exceptions.
        lines = [line.strip() for line in text.splitlines() if not line.startswith("\tat ")]
        return " | ".join(lines[-LOG_TAIL_LINES:]) or "(empty)"

    def _end(self, first_signal: signal.Signals) -> None:
        if self._watcher is not None:
            # The watcher ends before the server, so that it does not act when the process id may belong to another
            # process.
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        if live := running_process(self._folder):
            _end_process(live[1], first_signal)
        if self._child is not None:
            self._child.wait()
            self._child = None


def java_command(java: Path, jars: Path, heap: str, main: str, *arguments: str) -> list[str]:
    """The command of a server. `heap`: as for -Xmx; `jars`: folder of its class path."""
    # Serial collector and first compiler tier: the server shares few cores with Spark, usually for minutes. Only
    # warnings are logged, or the log would grow for ever.
    return [
        *(str(java), f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"),
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        *("-cp", str(jars / "*"), main, *arguments),
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


def _end_process(process: psutil.Process, first_signal: signal.Signals) -> None:
    try:
        process.send_signal(first_signal)  # psutil checks again that the id has not been taken by another process
        process.wait(STOP_TIMEOUT_S)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(STOP_TIMEOUT_S)
    except psutil.NoSuchProcess:
        pass
