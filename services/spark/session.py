"""The Spark session of a job."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from services.devbroker.java import find_java

STATE = "org.apache.spark.sql.execution.streaming.state"
FIXED = {
    # the plan of a stateful batch must not change from batch to batch
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",  # two attempts at one output partition would fence each other
    "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # W moves with the data: without, nothing changes
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",  # rows are blocks of up to megabytes
    "spark.python.worker.reuse": "true",  # consumers and producers live in the workers
    "spark.python.daemon.module": "services.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
}
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # The JVM's own work here is little and native (RocksDB, sockets): the optimizing compiler cost more than it gained
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.log.level": "ERROR",
}


def under_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(name: str, master: str | None, output_partitions: int, more: dict[str, str]) -> SparkSession:
    """`master` None: as spark-submit says, else local[*]. `more`: settings of the user."""
    if not under_spark_submit():
        os.environ["JAVA_HOME"] = str(find_java().parent.parent)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = master or "local[*]"
        if master.startswith("local"):
            more = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **more}
    builder = SparkSession.builder.appName(name)
    if master:
        builder = builder.master(master)
    fixed = {**FIXED, "spark.sql.shuffle.partitions": str(output_partitions)}
    for key, value in {**DEFAULTS, **more, **fixed}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel(more.get("spark.log.level", DEFAULTS["spark.log.level"]))
    return session
