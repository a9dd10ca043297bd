"""The modules that Spark's Python processes need, imported before a fork, so that their time is spent once."""

from __future__ import annotations

import gc
import importlib
import sys

MODULES = (
    "pandas",
    "pyarrow",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.pandas.serializers",
    "confluent_kafka",
    "confluent_kafka.admin",
    "moneystate.spark.source",
    "moneystate.spark.operator",
    "moneystate.spark.sink",
    "services.enrichment.service",
)
# Also of the processes that Spark starts before the first batch
OF_ALL = (
    *("pyspark.worker", "pyspark.sql.worker.lookup_data_sources", "pyspark.sql.worker.create_data_source"),
    *("pyspark.sql.worker.plan_data_source_read", "moneystate.job.sink_host", "moneystate.kafka.planner"),
)


def preload(names: tuple[str, ...] = MODULES) -> None:
    """Starts no thread, which would not survive the fork."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as e:  # a process that needs it reports the error
            print(f"not preloaded: {name} ({e})", file=sys.stderr)
    # A batch creates many tuples and hardly any cycles, so collections can be rare, and need not traverse the objects
    # of these modules at all.
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
