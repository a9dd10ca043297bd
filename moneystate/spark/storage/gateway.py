"""The JVM of this process, for access to stores. It starts at the first access, before there is a Spark application,
because a start checks its checkpoint first. The application then runs in the same JVM."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

from moneystate.job.storage import jvm_settings
from moneystate.spark.session import CHECKPOINT_FILES, start_jvm


def jvm() -> Any:
    start_jvm(jvm_settings.settings(), jvm_settings.log_file())
    return SparkContext._jvm


def path(address: str) -> Any:
    return jvm().org.apache.hadoop.fs.Path(address)


def configuration() -> Any:
    """Hadoop's configuration, as Spark makes it of its own settings."""
    java = jvm()
    conf = java.org.apache.spark.SparkConf()
    for name, value in jvm_settings.settings().items():
        conf.set(name, value)
    hadoop = _scala_object(java.org.apache.spark.deploy, "SparkHadoopUtil").get().newConfiguration(conf)
    chosen = conf.get(CHECKPOINT_FILES, "")
    if chosen:  # a setting of SQL, which Spark adds for each session
        hadoop.set(CHECKPOINT_FILES, chosen)
    return hadoop


def checkpoint_files(address: str) -> Any:
    """Spark's manager of checkpoint files in a folder."""
    package = jvm().org.apache.spark.sql.execution.streaming.checkpointing
    return _scala_object(package, "CheckpointFileManager").create(path(address), configuration())


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")
