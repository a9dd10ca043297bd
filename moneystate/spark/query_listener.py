"""Passes Spark's durations of each batch to the metrics.

PySpark's own listener copies the whole progress from the JVM, value by value: 15 to 30 ms of Python for each batch.
This one takes it as one text. It relies on private parts of PySpark 4.2: `_jlistener`, and Java's listener interface.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from moneystate.spark.metrics import JobMetrics


class SparkProgress(StreamingQueryListener):
    """For `session.streams.addListener`."""

    def __init__(self, metrics: JobMetrics) -> None:
        self.events = _Events(metrics)

    @property
    def _jlistener(self) -> Any:
        jvm: Any = SparkContext._jvm
        return jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self.events)

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...


class _Events:
    """What the JVM calls, with its own objects."""

    def __init__(self, metrics: JobMetrics) -> None:
        self.metrics = metrics

    def onQueryProgress(self, event: Any) -> None:
        self.metrics.spark(json.loads(event.progress().json())["durationMs"])

    def onQueryStarted(self, _: Any) -> None: ...

    def onQueryIdle(self, _: Any) -> None: ...

    def onQueryTerminated(self, _: Any) -> None: ...

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
