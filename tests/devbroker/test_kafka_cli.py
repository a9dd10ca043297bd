"""`moneystate kafka` as a user runs it: each command is a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.cli.kafka import NOT_RUNNING_EXIT_CODE
from moneystate.devbroker import DevBroker
from moneystate.errors import SetupError

PROGRAM = """
import sys
from moneystate.cli.kafka import app
from moneystate.errors import MoneystateError
try:
    app()
except MoneystateError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "broker"
    yield folder
    DevBroker(folder).stop()


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free: int = probe.getsockname()[1]
    return free


def run(command: str, data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, command, "--data-dir", str(data_dir), *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        check=False,
    )


def test_a_life_by_hand(data_dir: Path, port: int) -> None:
    started = run("start", data_dir, "--port", str(port))
    assert (started.returncode, started.stdout.strip()) == (0, f"127.0.0.1:{port}"), started.stderr

    # It outlives the command that started it.
    report = json.loads(run("status", data_dir, "--json").stdout)
    assert report == {
        "running": True,
        "pid": DevBroker(data_dir).pid,
        "bootstrap_servers": f"127.0.0.1:{port}",
        "data_dir": str(data_dir),
    }

    again = run("start", data_dir, "--port", str(port))
    assert (again.returncode, again.stdout) == (0, started.stdout)
    assert DevBroker(data_dir).pid == report["pid"]

    elsewhere = run("start", data_dir, "--port", str(port + 1))
    assert elsewhere.returncode == SetupError.exit_code

    assert run("stop", data_dir).returncode == 0
    assert DevBroker(data_dir).running is None
    assert run("stop", data_dir).returncode == 0


def test_status_of_none(data_dir: Path) -> None:
    as_text = run("status", data_dir)
    assert as_text.returncode == NOT_RUNNING_EXIT_CODE
    as_json = run("status", data_dir, "--json")
    assert as_json.returncode == NOT_RUNNING_EXIT_CODE
    assert json.loads(as_json.stdout)["running"] is False


def test_a_port_in_use_is_one_line_and_an_exit_code(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = run("start", data_dir, "--port", str(taken.getsockname()[1]))
    assert refused.returncode == SetupError.exit_code
    assert len(refused.stderr.splitlines()) == 1
