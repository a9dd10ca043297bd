"""`moneystate demo` as a user runs it: with a broker and a job of its own, of which nothing may be left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

RUN_S = 170  # what is promised for a first run
COMMAND = [sys.executable, "-m", "moneystate.cli.main", "demo"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The demo's temp folder. Its path stands in the command or the environment of all that the demo starts."""
    folder = tmp_path / "temp folder"
    folder.mkdir()
    yield folder
    for process in started_in(folder):
        process.kill()


def environment(folder: Path) -> dict[str, str]:
    # Flags of a job of the user's own must not get into the demo's.
    return {**os.environ, "TMPDIR": str(folder), "COLUMNS": "80", "MONEYSTATE_TOPIC_PREFIX": "mine-"}


def started_in(folder: Path) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if any(str(folder) in text for text in told):
            processes.append(process)
    return processes


def test_all_twelve_promises_are_held_and_nothing_is_left_over(folder: Path) -> None:
    done = subprocess.run(
        COMMAND, env=environment(folder), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ +(\d+)   .* (held|BROKEN) *$", done.stdout, re.MULTILINE)
    assert rows == [(str(step), "held") for step in range(1, 13)]
    assert "All 12 steps held" in done.stdout
    assert len(re.findall(r"^\$ moneystate ask enrichment ", done.stdout, re.MULTILINE)) == 6
    assert '{"birthYear": "1978"' in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "starting Kafka" in done.stderr
    assert "rdkafka" not in done.stderr
    assert list(folder.iterdir()) == []
    assert started_in(folder) == []


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_run_that_is_broken_off_leaves_nothing_over(folder: Path, number: signal.Signals) -> None:
    running = subprocess.Popen(
        COMMAND,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    with running:
        try:
            wait_for_spark(running, folder)
            running.send_signal(number)
            running.send_signal(number)  # an impatient user's second one must not cut the clean-up short
            _, stderr = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 128 + number
    assert "Traceback" not in stderr
    assert list(folder.iterdir()) == []
    assert started_in(folder) == []


def wait_for_spark(running: subprocess.Popen[str], folder: Path) -> None:
    """Until the job's JVM runs: by then all that is to be cleaned up is there."""
    deadline = time.monotonic() + RUN_S
    while time.monotonic() < deadline:
        if any("org.apache.spark.deploy.SparkSubmit" in command(process) for process in started_in(folder)):
            return
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"it ended too early, with exit code {running.wait(0.2)}")
    pytest.fail("no Spark within the time of a whole run")


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
