"""Spark's Python daemon. It imports the workers' modules before it forks them, and starts the sink host.

Spark forks its Python workers from a daemon that has imported little. So each worker spends a second or more on the
same imports; in a job's first batch there are six workers on two cores. Imported before the fork, the modules cost this
time once. This module must not start threads: they would not survive the fork.

The daemon and its workers ignore SIGTERM, which a service manager sends to every process of the job. Spark ends a
daemon by SIGTERM and by closing its stdin. At the end of its stdin, a daemon ends its workers with SIGHUP.
"""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace
from typing import Any

from moneystate.job import sink_host
from moneystate.job.collector import RareCollector
from moneystate.kafka.client import limit_creation
from moneystate.spark.preload import preload
from moneystate.stop_signals import leave_stop_signals


def start_sink_host() -> None:
    """Starts the sink host, if this daemon runs tasks. Spark also starts daemons for its planners, named by their
    worker module."""
    if sys.argv[1:] == ["pyspark.worker"]:
        from moneystate.spark.sink import write_partition

        sink_host.start(write_partition)


def _signal(number: int, handler: Any) -> Any:
    """`signal.signal` for PySpark's daemon and its workers, without handlers of SIGTERM and SIGINT."""
    return signal.signal(number, signal.SIG_IGN if number in (signal.SIGTERM, signal.SIGINT) else handler)


if __name__ == "__main__":
    leave_stop_signals()
    preload()
    limit_creation()  # Spark notices a worker that ends, and the worker the end of its sink host
    start_sink_host()
    from pyspark import daemon

    daemon.gc = RareCollector()  # type: ignore[attr-defined, assignment]
    daemon.signal = SimpleNamespace(**{**vars(signal), "signal": _signal})  # type: ignore[attr-defined, assignment]
    daemon.manager()
