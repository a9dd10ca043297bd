"""Handles signals of a JVM that the job did not start: under spark-submit, YARN, Kubernetes and the shell signal the
JVM.

Left to itself it ends at once, and this process with it, whatever batch is in hand. With a handler of ours it does
nothing but tell this process, whose end it waits for and whose exit code it takes.
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
    """Have `stop` called, from another thread, when the JVM is told to stop."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    signals = gateway.jvm.sun.misc.Signal
    handler = _Handler(stop)
    for name in STOPPING:
        signals.handle(signals(name), handler)
