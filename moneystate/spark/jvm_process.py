"""A process of Spark's JVM, which starts some time before there is a use for it: while a job checks its surroundings.

A check that fails must leave no trace. So the log of such a JVM is a file without a name until the job opens its
session, and a JVM that nobody has used ends with this process.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from moneystate.errors import SetupError
from moneystate.job.local_path import existing_part
from moneystate.spark.jvm.classes import spark_home
from moneystate.stop_signals import leave_stop_signals

DESCRIPTORS: Final = Path("/proc/self/fd")


class JvmProcess:
    """A JVM as `pyspark.java_gateway.launch_gateway` starts it, which would wait for it. `settings`: Spark's."""

    def __init__(self, settings: Mapping[str, str], log: IO[bytes]) -> None:
        self.log = log
        self.folder = Path(tempfile.mkdtemp())
        self.address = self.folder / "address"  # the JVM writes it once it can be called
        flags = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        home = spark_home()
        where = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self.address)}
        self.process = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), *flags, *words],
            stdin=subprocess.PIPE,  # the JVM ends when it does
            stdout=log,
            stderr=log,
            env={**os.environ, **where, "SPARK_HOME": str(home)},  # else Spark's script starts a Python to find it
            preexec_fn=leave_stop_signals,  # a JVM keeps ignoring what it finds ignored
        )
        atexit.register(self.end)

    def keep(self) -> None:
        """It is used: from now on it ends by itself, as its standard input does with this process."""
        atexit.unregister(self.end)

    def end(self) -> None:
        """Ends a JVM that is not used."""
        atexit.unregister(self.end)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def name_log(self, log: Path) -> None:
        """Gives the log, which has no name, this one. Raises SetupError."""
        with self.log:
            give_name(self.log, new_log(log))


def unnamed_log(log: Path) -> IO[bytes] | None:
    """A file that `give_name` can make `log`. Its content is gone if that never happens. None: this system or this
    file system does not have such files."""
    if not DESCRIPTORS.exists():
        return None
    try:
        return os.fdopen(os.open(existing_part(log.parent), os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    except (AttributeError, OSError):
        return None


def give_name(file: IO[bytes], log: Path) -> None:
    """Raises SetupError."""
    try:
        # The path makes the descriptor of a folder meaningless, but without one Python would not follow the link.
        os.link(DESCRIPTORS / str(file.fileno()), log, src_dir_fd=file.fileno())
    except OSError as e:
        raise SetupError(
            f"{log}: expected to make the file that the JVM's log goes to, but {e.strerror}.",
            "make room there, and let no other job use the checkpoint.",
        ) from None


def new_log(log: Path) -> Path:
    """Renames the previous run's log, which is the relevant one after a crash. Returns the path for the new one."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.is_file():
        log.replace(log.with_name(log.name + ".1"))
    return log
