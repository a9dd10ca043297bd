"""A run of the tests ends with its summary: Kafka clients that it leaves behind say nothing after it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAVES_CLIENTS = """
from confluent_kafka.admin import AdminClient

kept = []

def test_a_client_that_outlives_its_test(broker):
    kept.append(AdminClient({"bootstrap.servers": broker.bootstrap_servers}))
    assert kept[0].list_topics(timeout=30).brokers
"""


def test_a_run_ends_with_its_summary(tmp_path: Path) -> None:
    story = tmp_path / "test_story.py"
    story.write_text(LEAVES_CLIENTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", str(tmp_path), str(story)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(r"1 passed in [\d.]+s", done.stdout.splitlines()[-1])
    assert done.stderr == ""
