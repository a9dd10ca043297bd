"""Processes with another clock go on, and see another time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.clock import Clock

HANGS_S = 120.0
AHEAD_S = 1_800
PROGRAM = """
import sys, time
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "clock", "log_level": 0})
consumer.poll(0.1)
consumer.close()
time.sleep(0.1)
print(time.time())
"""


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="libfaketime is fetched from Debian")
@pytest.mark.parametrize("turned_s", [AHEAD_S, -AHEAD_S])
def test_waits_and_sleeps_are_those_of_the_real_clock(tmp_path: Path, turned_s: int) -> None:
    clock = Clock(tmp_path)
    clock.turn(turned_s)
    environment = clock.environment()
    assert environment is not None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )
    assert abs(float(done.stdout) - time.time() - turned_s) < AHEAD_S / 2
