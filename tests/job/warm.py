"""Commands of `moneystate` in one process that stays, with one JVM for all: a start of Spark's JVM costs more than most
runs of the job in these tests.

What a test kills, signals, pauses or watches is a process of its own (`tests.job.harness.JobProcess`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
MONEYSTATE = "moneystate.cli.main"
WITH_PIPES = ("-m", "tests.job.warm")


class Warm:
    """Starts its process with the first command. It ends with this process, however that ends.

    Services in files of their own need one of their own: what the first command does not import, Spark's Python
    processes do not find.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = dict(env or {})
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """The id of its process, which is the id of the session of all that it starts; None: it does not run."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def run(self, arguments: Sequence[str], folder: Path, deadline_s: float, module: str = MONEYSTATE) -> int:
        """The exit code of `main` of the module, whose `out` and `err` go into `folder`, which is where it runs.

        Raises TimeoutError past the deadline; the process is gone then.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([module, list(arguments), str(folder)]) + "\n")
        process.stdin.flush()
        over = threading.Timer(deadline_s, process.kill)
        over.start()
        try:
            answer = process.stdout.readline()
        finally:
            over.cancel()
        if not answer:
            raise TimeoutError
        return int(answer)

    def close(self) -> None:
        if self._process is not None:
            children = psutil.Process(self._process.pid).children() if self._process.poll() is None else []
            jvms = [child.pid for child in children if child.name() == "java"]
            self._process.communicate()
            assert len(jvms) <= 1, f"expected one JVM for all commands, found {len(jvms)}"

    def _start(self) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MONEYSTATE_")}
        local = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        return subprocess.Popen(
            [sys.executable, *WITH_PIPES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, **local, **self._env},
            text=True,
            start_new_session=True,
        )


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Run what is asked for, until the asking process is gone."""
    for line in requests:
        module, arguments, folder = json.loads(line)
        print(_run(module, arguments, Path(folder)), file=answers, flush=True)


def _run(module: str, arguments: list[str], folder: Path) -> int:
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        with (folder / name).open("wb") as file:
            os.dup2(file.fileno(), number)
    try:
        return _command(module, arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stop in (signal.SIGTERM, signal.SIGINT):  # a run takes them for itself
            signal.signal(stop, signal.SIG_DFL)


def _command(module: str, arguments: list[str]) -> int:
    sys.argv = [module, *arguments]
    try:
        import_module(module).main()
    except SystemExit as e:
        return _code(e.code)
    return 0


def _code(code: Any) -> int:
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"))
