"""Spark's Python daemon. It imports the workers' modules before it forks them, and starts the sink host.

Spark forks its Python workers from a daemon that has imported little. So each worker spends a second or more on the
same imports; in a job's first batch there are six workers on two cores. Imported before the fork, the modules cost this
time once. This module must not start threads: they would not survive the fork.
"""

from __future__ import annotations

import sys

from moneystate.kafka.client import limit_creation
from moneystate.spark import sink_host
from moneystate.spark.collector import RareCollector
from moneystate.spark.preload import preload


def start_sink_host() -> None:
    """Starts the sink host, if this daemon runs tasks. Spark also starts daemons for its planners, named by their
    worker module."""
    if sys.argv[1:] == ["pyspark.worker"]:
        from moneystate.spark.sink import write_partition

        sink_host.start(write_partition)


if __name__ == "__main__":
    preload()
    limit_creation()  # Spark notices a worker that ends, and the worker the end of its sink host
    start_sink_host()
    from pyspark import daemon

    daemon.gc = RareCollector()  # type: ignore[attr-defined, assignment]
    daemon.manager()
