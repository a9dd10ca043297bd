"""Starts Spark's JVM some time before there is a use for it: it starts while a job checks its surroundings.

A check that fails must leave no trace. So the log of such a JVM is a file without a name until the job opens its
session, and a JVM that nobody has used ends with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from moneystate.spark.local_path import existing_part
from moneystate.stop_signals import leave_stop_signals

POLL_S: Final = 0.02
GATEWAY: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")  # how PySpark is told of a JVM that runs


class JvmProcess:
    """A JVM as `pyspark.java_gateway.launch_gateway` starts it, which would wait for it."""

    def __init__(self, conf: SparkConf, log: IO[bytes]) -> None:
        self.log = log
        self.folder = Path(tempfile.mkdtemp())
        self.address = self.folder / "address"  # the JVM writes it once it can be called
        settings = [part for name, value in conf.getAll() for part in ("--conf", f"{name}={value}")]
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        home = _find_spark_home()
        where = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self.address), "SPARK_HOME": home}
        self.process = subprocess.Popen(
            [str(Path(home) / "bin" / "spark-submit"), *settings, *words],
            stdin=subprocess.PIPE,  # the JVM ends when it does
            stdout=log,
            stderr=log,
            env={**os.environ, **where},
            preexec_fn=leave_stop_signals,  # a JVM keeps ignoring what it finds ignored
        )
        atexit.register(self.end)

    def gateway(self) -> JavaGateway:
        """Waits until the JVM can be called. Raises PySparkRuntimeError if it ends before."""
        atexit.unregister(self.end)
        try:
            while not self.address.exists():
                if self.process.poll() is not None:
                    raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
                time.sleep(POLL_S)
            with self.address.open("rb") as file:
                port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        with _in_environment(dict(zip(GATEWAY, (str(port), secret), strict=True))):
            gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
        gateway.proc = self.process
        return gateway

    def end(self) -> None:
        """For a JVM that is not used."""
        atexit.unregister(self.end)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def unnamed_log(log: Path) -> IO[bytes] | None:
    """A file that `give_name` can make `log`. Its content is gone if that never happens. None: this system or this
    file system does not have such files."""
    try:
        return os.fdopen(os.open(existing_part(log.parent), os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    except (AttributeError, OSError):
        return None


def give_name(file: IO[bytes], log: Path) -> bool:
    """False: the folder is on another file system by now."""
    with contextlib.suppress(OSError):
        # without a descriptor of a folder, which the path makes meaningless, Python would not follow the link
        os.link(f"/proc/self/fd/{file.fileno()}", log, src_dir_fd=file.fileno())
        return True
    return False


@contextmanager
def _in_environment(variables: dict[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
