"""What the JVM of this process starts with, where a folder in a store needs it before there is a Spark application.

A process has one JVM, so these settings are the process's. They are apart from `gateway`, which imports PySpark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from moneystate.devbroker.jars import cache_root
from moneystate.job.local_path import is_local


class _Start:
    settings: Mapping[str, str] = {}
    log: Path | None = None


def configure(settings: Mapping[str, str], master: str = "") -> None:
    """`settings`: Spark's."""
    _Start.settings = {**settings, "spark.master": master} if master else settings


def log_for(checkpoint: str) -> None:
    """Keeps what the JVM prints, for a job whose checkpoint is in a store: in the user's cache folder."""
    if not is_local(checkpoint):
        name = hashlib.sha256(checkpoint.encode()).hexdigest()[:16]
        _Start.log = cache_root() / "drivers" / name / "driver.log"


def settings() -> dict[str, str]:
    return dict(_Start.settings)


def log_file() -> Path | None:
    return _Start.log
