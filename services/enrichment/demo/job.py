"""Runs the real job (`moneystate run enrichment`), the lookup worker and the query server, each as its own process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

import services
from moneystate.errors import JobError
from moneystate.log import text_of

SERVICE = "enrichment"
BOUND_S = 20
# The job's flags. The long idle timeout keeps partitions from becoming idle, because results would depend on the clock.
RULES = {
    "bound": f"{BOUND_S}s",
    "session-ttl": "1d",
    "session-wait": "60s",
    "dedup-ttl": "1m",
    "session-lookup": "topic",
    "idle-timeout": "1d",
}
FOREIGN = ("MONEYSTATE_", "SPARK_", "PYSPARK_")  # the user's variables that the demo must not inherit
AGAIN = "run the demo again."
PARTITIONS = 2  # of each topic and of the job; more would be slower on a small machine
STOP_TIMEOUT_S = 30.0  # the current batch normally takes less than a second
CHILDREN_TIMEOUT_S = 10.0
READY_TIMEOUT_S = 60.0
POLL_S = 0.1


class ServiceProcess:
    """`moneystate WORDS` with these flags. It writes only below `folder`.

    The end of the context kills the process and its children. Call `stop` before that for an orderly end.
    """

    def __init__(self, words: Sequence[str], flags: Mapping[str, str], folder: Path) -> None:
        self.words = words
        self._flags = flags  # with an empty value for switches
        self._folder = folder
        self._scratch = folder / "tmp"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._scratch.mkdir(parents=True)
        with self._log.open("wb") as log:
            # In a separate session, Ctrl-C in the terminal reaches only the demo, which then stops the process.
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self.environment(),
                start_new_session=True,
            )
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        family = _family(self._process.pid)
        self._process.kill()
        self._process.wait()
        _end(family, kill_at_once=True)

    def environment(self) -> dict[str, str]:
        """The user's variables without settings for jobs and Spark. Temporary files are below the folder."""
        return _environment(self._scratch)

    def check(self) -> None:
        """Raises JobError, with the last line of the log, if the process has ended."""
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            raise JobError(
                f"moneystate {self.words[0]}: expected to keep running, found exit code {code}: {self._last_line()}",
                AGAIN,
            )

    def stop(self) -> None:
        """Lets the process finish its current batch and end. Raises JobError unless it ends with exit code 0."""
        self.check()
        assert self._process is not None
        family = _family(self._process.pid)
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise JobError(
                f"moneystate {self.words[0]}: expected to end within {STOP_TIMEOUT_S:.0f} s of SIGTERM.", AGAIN
            ) from None
        _end(family, kill_at_once=False)
        if code != 0:
            raise JobError(
                f"moneystate {self.words[0]}: expected exit code 0, found {code}: {self._last_line()}", AGAIN
            )

    def _command(self) -> list[str]:
        flags = [
            part for name, value in self._flags.items() for part in ((f"--{name}", value) if value else (f"--{name}",))
        ]
        return [sys.executable, "-m", "moneystate.cli.main", *self.words, *flags]

    def wait_for_output(self, pattern: str, timeout_s: float) -> str:
        """Waits until the log matches `pattern`, and returns the first group. Raises JobError."""
        deadline = time.monotonic() + timeout_s
        while not (match := re.search(pattern, self._log.read_text(errors="replace"))):
            self.check()
            if time.monotonic() > deadline:
                raise JobError(f"moneystate {self.words[0]}: expected to be ready within {timeout_s:.0f} s.", AGAIN)
            time.sleep(POLL_S)
        return match[1]

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return next((text_of(line.strip()) for line in reversed(lines) if line.strip()), "(it wrote nothing)")


def enrichment_job(bootstrap_servers: str, folder: Path) -> ServiceProcess:
    """A live run with a new checkpoint."""
    flags = {
        "bootstrap-servers": bootstrap_servers,
        "checkpoint": str(folder / "checkpoint"),
        **RULES,
        "partitions": str(PARTITIONS),
        "topic-partitions": str(PARTITIONS),
        "quiet": "",
    }
    return ServiceProcess(("run", SERVICE), flags, folder)


def lookup_worker(bootstrap_servers: str, url: str, folder: Path) -> ServiceProcess:
    flags = {
        "bootstrap-servers": bootstrap_servers,
        "url": url,
        "topic-partitions": str(PARTITIONS),
        "quiet": "",
    }
    return ServiceProcess(("lookup-worker", SERVICE), flags, folder)


def query_server(bootstrap_servers: str, folder: Path) -> ServiceProcess:
    """The query server. It prints its address (`address_of`) when it listens."""
    flags = {
        "bootstrap-servers": bootstrap_servers,
        "service": SERVICE,
        "data": str(folder / "replica"),
        "listen": "127.0.0.1:0",
    }
    return ServiceProcess(("serve",), flags, folder)


def address_of(server: ServiceProcess) -> str:
    return server.wait_for_output(r"listening on (\S+)", READY_TIMEOUT_S)


def _environment(scratch: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    root = Path(services.__file__).parent.parent
    path = os.pathsep.join(p for p in (str(root), inherited.get("PYTHONPATH")) if p)
    spark = {"SPARK_LOCAL_DIRS": str(scratch), "SPARK_LOCAL_IP": "127.0.0.1"}
    loopback = {
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }  # the session service must not be reached through a proxy
    return {**inherited, **spark, **loopback, "TMPDIR": str(scratch), "PYTHONPATH": path}


def _family(pid: int) -> list[psutil.Process]:
    """All descendants of a process, such as Spark's JVM and Python workers. A signal to the process group would miss
    some, because they have their own groups."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _end(family: list[psutil.Process], kill_at_once: bool) -> None:
    remaining = family if kill_at_once else psutil.wait_procs(family, CHILDREN_TIMEOUT_S)[1]
    for process in remaining:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(remaining, CHILDREN_TIMEOUT_S)
