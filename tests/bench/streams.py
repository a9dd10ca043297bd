"""Runs a Kafka Streams peer of `peers/` beside a job."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.backlog import Result, rate_of, timestamps
from tests.bench.tree import Tree

RUN: Final = Path(__file__).parent / "peers" / "run.sh"
MOST_S: Final = 600.0
LOOK_EVERY_S: Final = 1.0


def run_streams(
    servers: str, prefix: str, peer: str, output: str, is_done: Callable[[], bool], settings: dict[str, str]
) -> Result:
    """Until it is done, which is asked once a second. `output`: a topic without its prefix, by which the rate is
    measured."""
    env = {**os.environ, "BOOTSTRAP": servers, "PREFIX": prefix, "APP": f"{prefix}{uuid.uuid4().hex[:8]}", **settings}
    subprocess.run([str(RUN), peer], env={**env, "BUILD_ONLY": "1"}, check=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        started = time.time()
        process = subprocess.Popen([str(RUN), peer], env={**env, "STATE_DIR": folder})
        tree = Tree(process.pid)
        try:
            while not is_done():
                if time.time() - started > MOST_S or process.poll() is not None:
                    raise RuntimeError(f"{peer} has not put out everything")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_EVERY_S)
        finally:
            process.terminate()
            process.wait()
            tree.end()
        times_ms = timestamps(servers, prefix + output)
        ended, start_s = times_ms[-1] / 1000 - started, times_ms[0] / 1000 - started
        name = " ".join(["kafka streams", *(f"{key}={value}" for key, value in settings.items())])
        return Result(name, rate_of(times_ms), len(times_ms), ended, start_s, tree.cpu_s, tree.rss // 2**20)
