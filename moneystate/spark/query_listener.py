"""Passes Spark's durations of each batch on.

PySpark's own listener copies the whole progress from the JVM, value by value: 15 to 30 ms of Python for each batch.
This one takes it as one text. It relies on private parts of PySpark 4.2: `_jlistener`, and Java's listener interface.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from moneystate.job.observer import OnTrigger, Trigger


class SparkProgress(StreamingQueryListener):
    """A listener for `session.streams.addListener`."""

    def __init__(self, listeners: Sequence[OnTrigger]) -> None:
        self.events = _Events(listeners)

    @property
    def _jlistener(self) -> Any:
        jvm: Any = SparkContext._jvm
        return jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self.events)

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...


class _Events:
    """The JVM calls this, with its own objects."""

    def __init__(self, listeners: Sequence[OnTrigger]) -> None:
        self.listeners = listeners

    def onQueryProgress(self, event: Any) -> None:
        trigger = as_trigger(json.loads(event.progress().json()))
        if trigger is not None:
            for listener in self.listeners:
                listener(trigger)

    def onQueryStarted(self, _: Any) -> None: ...

    def onQueryIdle(self, _: Any) -> None: ...

    def onQueryTerminated(self, _: Any) -> None: ...

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def as_trigger(progress: dict[str, Any]) -> Trigger | None:
    """None: the trigger ran no batch, because there was nothing to read."""
    durations_ms = progress["durationMs"]
    if "addBatch" not in durations_ms:
        return None
    begun_ms = round(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000)
    return Trigger(progress["batchId"], begun_ms * 1_000_000, durations_ms)
