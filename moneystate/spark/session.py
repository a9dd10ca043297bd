"""Creates the Spark session of a job."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.sql import SparkSession

from moneystate.devbroker.java import find_java, java_home
from moneystate.errors import SetupError
from moneystate.log import get_log
from moneystate.spark import fork_server
from moneystate.spark.class_archive import archive_options
from moneystate.spark.jvm.classes import LOCAL_CHECKPOINT_FILES, our_jar
from moneystate.spark.jvm_process import JvmProcess, give_name, unnamed_log
from moneystate.spark.run_folder import RunFolder

CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
WORKER_PYTHON = Path(__file__).with_name("worker-python")
STATE = "org.apache.spark.sql.execution.streaming.state"
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

_log = get_log(__name__)
_begun: JvmProcess | None = None  # by `begin_jvm`, and not used yet


def under_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(
    name: str,
    master: str | None,
    output_partitions: int,
    more: dict[str, str],
    log: Path | None = None,
    own: RunFolder | None = None,
) -> SparkSession:
    """`master` None: as spark-submit says, otherwise local[*]. `more`: the user's settings.

    `log`: file for everything that the JVM and its Python workers print; None: stderr. Under spark-submit the job does
    not start the JVM, and the JVM prints where spark-submit does. `own`: for the files of a JVM that the job starts,
    and of its workers.
    """
    conf = _conf(name, master, output_partitions, more, own)
    context = _open_context(conf, log, own)
    _end_without_memory(context)
    context.setLogLevel(more.get("spark.log.level", DEFAULTS["spark.log.level"]))
    return SparkSession(context)


def _end_without_memory(context: SparkContext) -> None:
    """Lets the JVM end when one of its threads dies for want of memory, as Spark does in executors. Otherwise the
    others would wait for that thread for ever."""
    jvm = context._jvm
    assert jvm is not None
    only_without_memory = jvm.org.apache.spark.util.SparkUncaughtExceptionHandler(False)
    jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(only_without_memory)


def start_jvm(more: dict[str, str], log: Path | None) -> None:
    """Starts the JVM without an application, unless it runs already. A later `open_session` uses it.

    `more`: the user's settings. `log`: as for `open_session`, but None: what the JVM prints is not kept.
    """
    if SparkContext._gateway is not None:
        return
    if under_spark_submit():
        SparkContext._ensure_initialized()
        return
    conf = _conf("moneystate", None, 1, more, None)
    SparkContext._ensure_initialized(gateway=_launched(conf, log, None))


def _conf(
    name: str, master: str | None, output_partitions: int, more: dict[str, str], own: RunFolder | None
) -> SparkConf:
    if not under_spark_submit():
        java = find_java()
        os.environ["JAVA_HOME"] = str(java_home(java))
        master = master or "local[*]"
        os.environ.setdefault("PYSPARK_PYTHON", worker_python(more.get("spark.master", master)))
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            more = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **more}
        if _in_one_jvm(more.get("spark.master", master)):
            more = with_our_classes(more, java)
        if own is not None:
            more = _with_folder(more, own)
    conf = SparkConf().setAppName(name)
    if master:
        conf.setMaster(master)
    fixed = {**FIXED, "spark.sql.shuffle.partitions": str(output_partitions)}
    conf.setAll(list({**DEFAULTS, **more, **fixed}.items()))
    return conf


def worker_python(master: str) -> str:
    """The command with which Spark starts Python. In a local run it has a path that imports PySpark quickly."""
    if not master.startswith("local") or not os.access(WORKER_PYTHON, os.X_OK):
        return sys.executable
    os.environ["MONEYSTATE_PYTHON"] = sys.executable
    return str(WORKER_PYTHON)


def _in_one_jvm(master: str) -> bool:
    """Not `local-cluster[...]`, whose executors have their own class paths."""
    return master == "local" or master.startswith("local[")


def with_our_classes(more: dict[str, str], java: Path) -> dict[str, str]:
    """The settings with our jar, which is always added: a process has one JVM, which its first session starts."""
    try:
        jar = our_jar(java)
    except SetupError:
        return more  # `use_our_checkpoint_files` says so
    more = {**more, JAVA_OPTIONS: _with_archive(more.get(JAVA_OPTIONS, DEFAULTS[JAVA_OPTIONS]), java, jar)}
    return {**more, CLASS_PATH: os.pathsep.join(filter(None, [more.get(CLASS_PATH), str(jar)]))}


def use_our_checkpoint_files(session: SparkSession) -> None:
    """For a query whose checkpoint is a folder on this machine, unless the user has chosen other code for it."""
    is_ours = not under_spark_submit() and _in_one_jvm(session.conf.get("spark.master") or "")
    if not is_ours or session.conf.get(CHECKPOINT_FILES, ""):
        return
    try:
        our_jar(find_java())
    except SetupError as error:
        _log.warning(f"Spark's own, slower code will write the checkpoint files. {error}")
        return
    session.conf.set(CHECKPOINT_FILES, LOCAL_CHECKPOINT_FILES)


def _with_archive(options: str, java: Path, jar: Path) -> str:
    """Java uses one archive at a time, so an archive that the user names or makes is left alone."""
    if "SharedArchiveFile" in options or "ArchiveClassesAtExit" in options:
        return options
    return f"{options} {archive_options(java, jar)}".rstrip()


def _with_folder(more: dict[str, str], own: RunFolder) -> dict[str, str]:
    """Adds Spark's local folders and the JVM's temporary folder, which has the sessions' artifacts."""
    options = more.get(JAVA_OPTIONS, DEFAULTS[JAVA_OPTIONS])
    return {
        **more,
        "spark.local.dir": ",".join(map(str, own.paths)),
        JAVA_OPTIONS: f'{options} "-Djava.io.tmpdir={own.path}"',
    }


def _open_context(conf: SparkConf, log: Path | None, own: RunFolder | None) -> SparkContext:
    # it would print a stack trace if the JVM has died, in addition to our line
    AccumulatorTCPServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        # a further session in this process uses the JVM of the first one, and its log
        if log is None or under_spark_submit() or SparkContext._gateway is not None:
            return SparkContext(conf=conf)
        return SparkContext(conf=conf, gateway=_launched(conf, log, own))
    finally:
        # SparkContext installs a handler that cancels the current batch
        signal.signal(signal.SIGINT, on_interrupt)


def begin_jvm(master: str | None, output_partitions: int, more: dict[str, str], log: Path, own: RunFolder) -> None:
    """Lets the JVM start while the caller does something else. `open_session`, with the same arguments, uses it. If the
    caller ends before, it leaves nothing behind. Does nothing if there is a JVM, or none can be started now:
    `open_session` says why."""
    global _begun
    if under_spark_submit() or SparkContext._gateway is not None or _begun is not None:
        return
    file = unnamed_log(log)
    if file is not None:
        with suppress(SetupError, OSError):
            _begun = _started(_conf("moneystate", master, output_partitions, more, own), file, own)


def _launched(conf: SparkConf, log: Path | None, own: RunFolder | None) -> JavaGateway:
    global _begun
    begun, _begun = _begun, None
    named = None if log is None else _new_log(log)
    if begun is not None:
        with begun.log:
            if named is None or give_name(begun.log, named):
                return begun.gateway()
        begun.end()
    with (named or Path(os.devnull)).open("wb") as out:
        return _started(conf, out, own).gateway()


def _started(conf: SparkConf, log: IO[bytes], own: RunFolder | None) -> JvmProcess:
    with _without_local_dirs():
        if own is not None and os.environ.get("PYSPARK_PYTHON") == str(WORKER_PYTHON):
            fork_server.start(own.path, log)
        return JvmProcess(conf, log)


@contextmanager
def _without_local_dirs() -> Iterator[None]:
    """In Spark, this variable overrides the setting with the run folder."""
    told = os.environ.pop("SPARK_LOCAL_DIRS", None)
    try:
        yield
    finally:
        if told is not None:
            os.environ["SPARK_LOCAL_DIRS"] = told


def _new_log(log: Path) -> Path:
    """Renames the previous run's log, which is the relevant one after a crash. Returns the path for the new one."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.is_file():
        log.replace(log.with_name(log.name + ".1"))
    return log
