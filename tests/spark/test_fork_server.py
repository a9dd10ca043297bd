"""Spark's Python processes as forks of the fork server, started as the JVM starts them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from moneystate.spark import fork_server
from moneystate.spark.fork_client import SERVER, SOCKET
from moneystate.spark.jvm_start import WORKER_PYTHON
from tests.waiting import until

DEADLINE_S = 60.0
MODULE = """
import json, os, signal, sys
told = [sys.argv[1:], os.getcwd(), os.environ["COLOUR"], "PYTHONHASHSEED" in os.environ, os.getpid(), os.getppid()]
print(json.dumps([*told, "pandas" in sys.modules]), flush=True)
if "wait" in sys.argv:
    sys.stdin.read()
while "hang" in sys.argv:
    signal.pause()
sys.exit(7)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fork_server, "_running", None)
        patch.setenv(SERVER, "is put back after the tests")
        fork_server.start(tmp_path_factory.mktemp("server"), subprocess.DEVNULL)
        running = fork_server._running
        assert running is not None
        yield running
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(DEADLINE_S) == 0  # as when the process that has started it ends


def started(folder: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """The module `forked` in `folder` with these arguments, started as Spark does it."""
    (folder / "forked.py").write_text(MODULE)
    local = {"PYTHONPATH": str(folder), "MONEYSTATE_PYTHON": sys.executable, "COLOUR": "red", **more}
    return subprocess.Popen(
        [str(WORKER_PYTHON), "-m", "forked", *words],
        cwd=folder,
        env={**os.environ, **local},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_fork_has_the_arguments_folder_environment_and_modules_it_needs_and_its_code_is_the_clients(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with started(tmp_path, "a b", "*") as process:
        words, folder, colour, has_seed, pid, parent, has_pandas = first_line(process)
    assert (words, folder, colour) == (["a b", "*"], str(tmp_path), "red")
    assert not has_seed, "a variable of the server's own"
    assert parent == server.pid
    assert pid != process.pid
    assert has_pandas
    assert process.returncode == 7


def test_a_fork_ends_with_its_client(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with started(tmp_path, "wait") as process:
        pid = first_line(process)[4]
        process.kill()
        until(lambda: has_ended(pid), lambda: "the fork lives on", DEADLINE_S)
        assert process.wait(DEADLINE_S) != 0


def test_signals_for_all_processes_end_none_of_them(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with started(tmp_path, "wait") as process:
        pid = first_line(process)[4]
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            for each in (server.pid, pid, process.pid):
                os.kill(each, number)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 7, "by itself, after its input"
    assert server.poll() is None


def test_a_fork_that_does_not_end_with_its_input_is_killed(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with started(tmp_path, "hang") as process:
        pid = first_line(process)[4]
        assert process.stdin is not None
        process.stdin.close()  # as Spark does it to a process that it gives up
        until(lambda: has_ended(pid), lambda: "the fork lives on", DEADLINE_S)
        assert process.wait(DEADLINE_S) not in (0, 7)


def test_a_fork_that_is_killed_ends_its_client(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with started(tmp_path, "wait") as killed, started(tmp_path, "wait") as other:
        os.kill(first_line(killed)[4], signal.SIGKILL)
        assert killed.wait(DEADLINE_S) not in (0, 7)
        assert first_line(other)
        assert other.stdin is not None
        other.stdin.close()
        assert other.wait(DEADLINE_S) == 7, "the server must outlive a killed fork"


def test_without_a_server_it_is_python_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as left, monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        left.bind(SOCKET)
    # its file stays, as after a kill
    with started(tmp_path, **{SERVER: str(tmp_path)}) as process:
        words, folder, *_, pid, _, has_pandas = first_line(process)
    assert (words, folder) == ([], str(tmp_path))
    assert pid == process.pid
    assert not has_pandas
    assert process.returncode == 7
