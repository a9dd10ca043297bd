"""Creates the Spark session of a job."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, current_thread, main_thread

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.sql import SparkSession

from moneystate.devbroker.java import find_java
from moneystate.errors import SetupError
from moneystate.job.run_folder import RunFolder
from moneystate.log import get_log
from moneystate.spark import jvm_start
from moneystate.spark.jvm.classes import LOCAL_CHECKPOINT_FILES, our_jar
from moneystate.spark.jvm_gateway import connected
from moneystate.spark.jvm_process import JvmProcess
from moneystate.spark.jvm_start import in_one_jvm, spark_settings, under_spark_submit

CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_log = get_log(__name__)
_opening: Opening | None = None  # by `begin_session`, and not used yet


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
    global _opening
    settings = spark_settings(name, master, output_partitions, more, own)
    opening, _opening = _opening, None
    if opening is not None:
        session = opening.taken(log)
        if opening.settings == settings:
            return session
        session.stop()  # an earlier command of this process has begun it
    # a further session in this process uses the JVM of the first one, and its log
    if log is None or under_spark_submit() or SparkContext._gateway is not None:
        return _session(settings, None)
    return _session(settings, _launched(settings, log, own))


def begin_session(
    name: str, master: str | None, output_partitions: int, more: Mapping[str, str], own: RunFolder
) -> None:
    """Lets the session open while the caller does something else, if `begin_jvm` has begun a JVM. `open_session`, with
    the same arguments, returns it. If the caller ends before, it leaves nothing behind."""
    global _opening
    jvm = jvm_start.take_begun()
    if jvm is not None:
        _opening = Opening(spark_settings(name, master, output_partitions, more, own), jvm)


class Opening:
    """A session that opens in a thread. Its JVM's log has no name until somebody takes it."""

    def __init__(self, settings: Mapping[str, str], jvm: JvmProcess) -> None:
        self.settings, self.jvm = settings, jvm
        self.session: SparkSession | None = None
        self.failure: Exception | None = None
        self.thread = Thread(target=self._open, daemon=True)  # a command that is refused does not wait for it
        self.thread.start()

    def _open(self) -> None:
        try:
            self.session = _session(self.settings, connected(self.jvm))
        except Exception as e:
            self.failure = e

    def taken(self, log: Path | None) -> SparkSession:
        """Raises what opening it has raised."""
        if log is not None:
            self.jvm.name_log(log)
        self.thread.join()
        self.jvm.keep()
        if self.session is None:
            assert self.failure is not None
            raise self.failure
        return self.session


def _session(settings: Mapping[str, str], gateway: JavaGateway | None) -> SparkSession:
    # it would print a stack trace if the JVM has died, in addition to our line
    AccumulatorTCPServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    with _own_interrupts():
        context = SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=gateway)
    _end_without_memory(context)
    context.setLogLevel(settings["spark.log.level"])
    return SparkSession(context)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """In the main thread, SparkContext installs a handler that cancels the current batch."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, on_interrupt)


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
    if _opening is not None:
        _opening.thread.join()
    if SparkContext._gateway is not None:
        return
    if under_spark_submit():
        SparkContext._ensure_initialized()
        return
    settings = spark_settings("moneystate", None, 1, more, None)
    SparkContext._ensure_initialized(gateway=_launched(settings, log, None))


def use_our_checkpoint_files(session: SparkSession) -> None:
    """Makes a query whose checkpoint is a folder on this machine use our code for its files, unless the user has chosen
    other code for it."""
    is_ours = not under_spark_submit() and in_one_jvm(session.conf.get("spark.master") or "")
    if not is_ours or session.conf.get(CHECKPOINT_FILES, ""):
        return
    try:
        our_jar(find_java())
    except SetupError as error:
        _log.warning(f"Spark's own, slower code will write the checkpoint files. {error}")
        return
    session.conf.set(CHECKPOINT_FILES, LOCAL_CHECKPOINT_FILES)


def _launched(settings: Mapping[str, str], log: Path | None, own: RunFolder | None) -> JavaGateway:
    jvm = jvm_start.started(settings, log, own)
    gateway = connected(jvm)
    jvm.keep()
    return gateway
