"""How Spark's JVM is started: with which settings, and perhaps before there is a use for it.

It imports no PySpark, which takes as long as half of the JVM's start: a job's JVM starts while its command imports the
rest.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from moneystate.devbroker.java import find_java, java_home
from moneystate.errors import SetupError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.local_path import is_local
from moneystate.job.run_folder import RunFolder, new_run_folder
from moneystate.job.run_options import RunOptions
from moneystate.ports.service import JobSpec
from moneystate.spark import fork_server
from moneystate.spark.class_archive import archive_options
from moneystate.spark.jvm.classes import our_jar
from moneystate.spark.jvm_process import JvmProcess, new_log, unnamed_log

CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
WORKER_PYTHON = Path(__file__).with_name("worker-python")
STATE = "org.apache.spark.sql.execution.streaming.state"
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
UNIX_SOCKETS_DIR = "spark.python.unix.domain.socket.dir"
FIXED = {
    # the plan of a stateful batch must not change from batch to batch
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",  # two attempts at one output partition would fence each other
    "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # only data advances the watermark
    ARROW_ROWS: "16",  # rows are blocks and chunks of up to megabytes
    "spark.python.worker.reuse": "true",  # consumers and copies of the state live in the workers
    "spark.python.daemon.module": "moneystate.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
}
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # The JVM does little work here, most of it native (RocksDB, sockets): the optimizing compiler cost more than it
    # saved
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.log.level": "ERROR",
    # Spark's web pages are off, so the data that it keeps for them is useless: by default 100,000 tasks and 1,000 plans
    # on the heap, the last hours of a fast job. Set these as well to use the pages.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "400",
    "spark.sql.ui.retainedExecutions": "10",
}

MAX_SOCKET_FOLDER: Final = 60  # a socket's path has at most 107 bytes, of which its name takes 42

_begun: JvmProcess | None = None  # by `begin_jvm`, and not used yet
_taken = False  # a JVM was begun and is in use, perhaps by a session that still opens


def under_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def spark_settings(
    name: str, master: str | None, output_partitions: int, more: Mapping[str, str], own: RunFolder | None
) -> dict[str, str]:
    """Returns the settings of a session. The JVM starts with them, too. `more`: the user's. `own`: for the files of a
    JVM of this process."""
    if not under_spark_submit():
        java = find_java()
        os.environ["JAVA_HOME"] = str(java_home(java))
        master = master or "local[*]"
        os.environ.setdefault("PYSPARK_PYTHON", worker_python(more.get("spark.master", master)))
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            more = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **more}
        if in_one_jvm(more.get("spark.master", master)):
            more = {**_sockets(own), **with_our_classes(more, java)}
        if own is not None:
            more = _with_folder(more, own)
    named = {"spark.app.name": name, **({"spark.master": master} if master else {})}
    return {**named, **DEFAULTS, **more, **FIXED, "spark.sql.shuffle.partitions": str(output_partitions)}


def worker_python(master: str) -> str:
    """The command with which Spark starts Python. In a local run it has a path that imports PySpark quickly."""
    if not master.startswith("local") or not os.access(WORKER_PYTHON, os.X_OK):
        return sys.executable
    os.environ["MONEYSTATE_PYTHON"] = sys.executable
    return str(WORKER_PYTHON)


def in_one_jvm(master: str) -> bool:
    """Not `local-cluster[...]`, whose executors have their own class paths."""
    return master == "local" or master.startswith("local[")


def with_our_classes(more: Mapping[str, str], java: Path) -> Mapping[str, str]:
    """The settings with our jar, which is always added: a process has one JVM, which its first session starts."""
    try:
        jar = our_jar(java)
    except SetupError:
        return more  # `use_our_checkpoint_files` says so
    more = {**more, JAVA_OPTIONS: _with_archive(more.get(JAVA_OPTIONS, DEFAULTS[JAVA_OPTIONS]), java, jar)}
    return {**more, CLASS_PATH: os.pathsep.join(filter(None, [more.get(CLASS_PATH), str(jar)]))}


def _with_archive(options: str, java: Path, jar: Path) -> str:
    """Java uses one archive at a time, so an archive that the user names or makes is left alone."""
    if "SharedArchiveFile" in options or "ArchiveClassesAtExit" in options:
        return options
    return f"{options} {archive_options(java, jar)}".rstrip()


def _sockets(own: RunFolder | None) -> dict[str, str]:
    """Lets Spark and its Python workers talk over Unix sockets, if the folder leaves room for their names. Over TCP,
    Nagle's algorithm and delayed acknowledgements hold each task of a worker for 40 ms. The folders of executors are
    not known here."""
    folder = tempfile.gettempdir() if own is None else str(own.path)
    if len(os.fsencode(folder)) > MAX_SOCKET_FOLDER:
        return {}
    return {UNIX_SOCKETS: "true", UNIX_SOCKETS_DIR: folder}


def _with_folder(more: Mapping[str, str], own: RunFolder) -> dict[str, str]:
    """Adds Spark's local folders and the JVM's temporary folder, which has the sessions' artifacts."""
    options = more.get(JAVA_OPTIONS, DEFAULTS[JAVA_OPTIONS])
    return {
        **more,
        "spark.local.dir": ",".join(map(str, own.paths)),
        JAVA_OPTIONS: f'{options} "-Djava.io.tmpdir={own.path}"',
    }


def begin_run(spec: JobSpec, options: RunOptions) -> RunFolder:
    """Returns the run's folder while the JVM starts, for a command that has yet to import what its job needs."""
    own = new_run_folder(spec, options)
    begin_jvm(options, own)
    return own


def begin_jvm(options: RunOptions, own: RunFolder) -> None:
    """Lets the JVM start while the caller does something else. `open_session`, with the same options, uses it. If the
    caller ends before, it leaves nothing behind. Does nothing if there is a JVM, or none can be started now:
    `open_session` says why."""
    global _begun
    o = options
    log = Checkpoint(o.checkpoint).driver_log() if is_local(o.checkpoint) else None  # else the checks start it
    if log is None or under_spark_submit() or _has_jvm() or _taken or _begun is not None:
        return
    file = unnamed_log(log)
    if file is not None:
        with suppress(SetupError, OSError):
            _begun = _started(spark_settings("moneystate", o.master, o.partitions, o.spark_config, own), file, own)


def _has_jvm() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def started(settings: Mapping[str, str], log: Path | None, own: RunFolder | None) -> JvmProcess:
    """The JVM that `begin_jvm` has started, or a new one, with its log at `log`."""
    begun = take_begun()
    if begun is not None:
        if log is not None:
            begun.name_log(log)
        return begun
    with (Path(os.devnull) if log is None else new_log(log)).open("wb") as out:
        return _started(settings, out, own)


def take_begun() -> JvmProcess | None:
    """The JVM that `begin_jvm` has started, unless somebody has taken it."""
    global _begun, _taken
    begun, _begun = _begun, None
    _taken = _taken or begun is not None
    return begun


def _started(settings: Mapping[str, str], log: IO[bytes], own: RunFolder | None) -> JvmProcess:
    with _without_local_dirs():
        if own is not None and os.environ.get("PYSPARK_PYTHON") == str(WORKER_PYTHON):
            fork_server.start(own.path, log)
        return JvmProcess(settings, log)


@contextmanager
def _without_local_dirs() -> Iterator[None]:
    """In Spark, this variable overrides the setting with the run folder."""
    told = os.environ.pop("SPARK_LOCAL_DIRS", None)
    try:
        yield
    finally:
        if told is not None:
            os.environ["SPARK_LOCAL_DIRS"] = told
