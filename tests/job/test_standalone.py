"""The job through spark-submit on a standalone cluster: executors are processes of their own, as in production."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

from moneystate.devbroker.java import find_java
from moneystate.spark.checkpoint import Checkpoint
from tests.job.harness import POLL_S, JobProcess, Setup, counts, small_workload
from tests.job.warm import ROOT
from tests.ports import free_port
from tests.reference.model import Rules

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
    command = [str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-cp", str(SPARK_HOME / "jars" / "*")]
    spark_class = f"org.apache.spark.deploy.{name}"
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, spark_class, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=folder, env=environment(folder), start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        for child in children:
            if child.is_running():
                child.kill()
        process.wait(UP_S)
        psutil.wait_procs(children, UP_S)


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


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and a worker of two cores on loopback; the master's address."""
    port, web_port = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    where = ("--host", "127.0.0.1")
    with ExitStack() as stack:
        stack.enter_context(daemon(folder, "master.Master", *where, "--port", str(port), "--webui-port", str(web_port)))
        worker = stack.enter_context(
            daemon(folder, "worker.Worker", *where, "--webui-port", "0", "--cores", "2", "--memory", "2g", address)
        )
        wait_until(lambda: alive_workers(web_port) == 1, worker, folder / "worker.Worker.log")
        yield address


def submitted(setup: Setup, master: str, *flags: str) -> JobProcess:
    """The job by spark-submit, whose JVM is the process."""
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--conf", "spark.executor.memory=1g"]
    command += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
    command.append(str(ROOT / "services" / "enrichment" / "submit.py"))
    return JobProcess(setup.arguments(*flags)[1:], setup.folder, environment(setup.folder), command)


def test_told_to_stop_it_finishes_the_batch_in_hand(setup: Setup) -> None:
    setup.create_inputs()
    records = small_workload("--events", "700")
    setup.send(records[: len(records) // 2])
    checkpoint = Checkpoint(str(setup.checkpoint))
    with submitted(setup, "local[2]", "--quiet") as job:
        job.wait_for(lambda: checkpoint.last_committed() >= 0, "batch 0")
        setup.send(records[len(records) // 2 :])
        job.wait_for(lambda: checkpoint.last_planned() > checkpoint.last_committed(), "a batch in hand")
        done = job.stop()
    assert done.code == 0, done.err
    assert checkpoint.last_planned() == checkpoint.last_committed() > 0


def test_on_a_standalone_cluster_it_writes_what_it_writes_anywhere(setup: Setup) -> None:
    setup.create_inputs()
    setup.send(small_workload("--events", "1000", "--flush-marker"))
    with cluster(setup.folder) as master:
        flags = ("--until-caught-up", "--drain", "--json", "--max-records-per-batch", "400")
        with submitted(setup, master, *flags) as job:
            done = job.finish()
        assert done.code == 0, done.err
    want = setup.check_output(Rules(lookup=False), drain=True)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)
