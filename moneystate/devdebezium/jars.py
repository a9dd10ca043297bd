"""Debezium's and Kafka Connect's jars, downloaded once for each user into the cache folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moneystate.devbroker.ivy import Artifact
from moneystate.devbroker.jars import KAFKA_VERSION, Progress, cached_jars

DEBEZIUM_VERSION: Final = "3.6.1"
# Without this Debezium would bring a later version of some.
KAFKA_PARTS: Final = ("connect-runtime", "connect-api", "connect-transforms", "kafka-clients")
ARTIFACTS: Final = [
    Artifact("io.debezium", "debezium-connector-postgres", f"{DEBEZIUM_VERSION}.Final"),
    *(Artifact("org.apache.kafka", part, KAFKA_VERSION) for part in KAFKA_PARTS),
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
]


def debezium_jars(progress: Progress = lambda _line: None) -> Path:
    """The folder with the worker's jars. Downloads them the first time (38 MB, about 1 min)."""
    told = f"Debezium {DEBEZIUM_VERSION} with Kafka Connect {KAFKA_VERSION} (once, 38 MB, about 1 min)"
    return cached_jars(f"debezium-{DEBEZIUM_VERSION}", ARTIFACTS, told, progress)
