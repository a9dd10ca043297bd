"""A client that cannot be created ends its process where the process has a limit."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.job.warm import ROOT

HANGS = """
import time
from moneystate.kafka.client import limit_creation, new_client

limit_creation(1)
new_client(lambda _: time.sleep(600), {})
"""
PASSES = """
import time
from confluent_kafka import Producer
from moneystate.kafka.client import limit_creation, new_client

limit_creation(1)
new_client(Producer, {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
time.sleep(1.2)  # past the limit
"""


def exit_code(program: str) -> int:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode


def test_a_creation_that_hangs_ends_the_process() -> None:
    assert exit_code(HANGS) == -signal.SIGALRM


def test_the_limit_is_of_the_creation_alone() -> None:
    assert exit_code(PASSES) == 0
