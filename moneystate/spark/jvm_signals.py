"""Handles signals of a JVM that the job did not start: under spark-submit, YARN, Kubernetes and the shell signal the
JVM.

By default the JVM ends at once, and this process with it, in the middle of a batch. With the handler of this module it
only notifies this process, waits for its end, and takes over its exit code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

STOPPING = ("TERM", "INT")


class _Handler:
    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop

    def handle(self, _signal: Any) -> None:
        self.stop()

    class Java:
        implements = ("sun.misc.SignalHandler",)


def stop_with_jvm(session: SparkSession, stop: Callable[[], None]) -> None:
    """Calls `stop`, from another thread, when the JVM is told to stop."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    signals = gateway.jvm.sun.misc.Signal
    handler = _Handler(stop)
    for name in STOPPING:
        signals.handle(signals(name), handler)
