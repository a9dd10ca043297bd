"""Spark's standalone cluster on loopback: a master, and workers as if each had a machine of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pyspark

from moneystate.devbroker.java import find_java
from tests.job.harness import POLL_S, JobProcess, Setup
from tests.job.warm import ROOT
from tests.ports import free_port
from tests.processes import kill_with_children

EXECUTOR = "CoarseGrainedExecutorBackend"  # its class, in its command line
SPARK_HOME = Path(pyspark.__file__).parent
UP_S = 60.0


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_SCALA_VERSION": "2.13",  # as load-spark-env.sh sets it; the worker starts executors with it
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "JAVA_HOME": str(find_java().parent.parent),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Spark daemon in the foreground, killed with its children by their ids."""
    command = [str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", str(SPARK_HOME / "jars" / "*")]
    spark_class = f"org.apache.spark.deploy.{name}"
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, spark_class, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=folder, env=environment(folder), start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill_with_children(process, UP_S)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + UP_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        try:
            code = process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"ended with code {code}:\n{log.read_text()}")


def alive_workers(web_port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/json/", timeout=5) as answer:
            return int(answer.read().decode().count('"state" : "ALIVE"'))
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return 0


class SparkCluster(NamedTuple):
    """`master`: its address."""

    master: str
    workers: list[psutil.Process]

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return [child for worker in self.workers for child in worker.children() if _is_executor(child)]


def _is_executor(process: psutil.Process) -> bool:
    try:
        return EXECUTOR in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # it has just ended
        return False


@contextmanager
def cluster(folder: Path, cores: Sequence[int] = (2,)) -> Iterator[SparkCluster]:
    """A master, and a worker with so many cores for each number: on an address of its own, with folders of its own."""
    port, web_port = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    workers = []
    with ExitStack() as stack:
        where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web_port))
        stack.enter_context(daemon(folder, "master.Master", *where))
        for number, its_cores in enumerate(cores, 1):
            machine = folder / f"machine-{number}"
            machine.mkdir()
            mine = ("--host", f"127.0.0.{number}", "--webui-port", "0", "--cores", str(its_cores), "--memory", "2g")
            workers.append(stack.enter_context(daemon(machine, "worker.Worker", *mine, address)))
        log = folder / "machine-1" / "worker.Worker.log"
        wait_until(lambda: alive_workers(web_port) == len(cores), workers[0], log)
        yield SparkCluster(address, [psutil.Process(worker.pid) for worker in workers])


def submitted(setup: Setup, master: str, *flags: str, conf: Sequence[str] = ()) -> JobProcess:
    """The job by spark-submit, whose JVM is the process."""
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--conf", "spark.executor.memory=1g"]
    command += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
    command += [word for setting in conf for word in ("--conf", setting)]
    command.append(str(ROOT / "moneystate" / "cli" / "main.py"))
    return JobProcess(setup.arguments(*flags), setup.folder, environment(setup.folder), command)
