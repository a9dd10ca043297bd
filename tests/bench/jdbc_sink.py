"""The peer of `moneystate apply`: Debezium's JDBC sink in a standalone Kafka Connect, with the same rows.

Its records bring their schema, without which it does not write, so a value has some 600 bytes instead of 200. It writes
each row at least once, in batches, with the same upsert.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

from moneystate.devbroker.ivy import Artifact
from moneystate.devbroker.jars import KAFKA_VERSION, cached_jars
from moneystate.devbroker.java import find_java
from moneystate.devpostgres import DevPostgres
from tests.waiting import until

VERSION: Final = "3.2.0"
PARTS: Final = ("connect-runtime", "connect-api", "connect-transforms", "kafka-clients")
ARTIFACTS: Final = [
    Artifact("io.debezium", "debezium-connector-jdbc", f"{VERSION}.Final"),
    *(Artifact("org.apache.kafka", part, KAFKA_VERSION) for part in PARTS),
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
]
TYPES: Final = {"id": "string", "cents": "int64", "at": "string", "open": "boolean", "note": "string"}
SCHEMA: Final = {
    "type": "struct",
    "name": "row",
    "fields": [{"field": name, "type": kind, "optional": name != "id"} for name, kind in TYPES.items()],
}
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
START_S: Final = 120.0
WITHIN_S: Final = 600.0
PACE_S: Final = 0.2


def with_schema(value: dict[str, Any]) -> bytes:
    """A value as the sink takes it."""
    return json.dumps({"schema": SCHEMA, "payload": value}).encode()


def sink_rate(
    folder: Path, servers: str, database: DevPostgres, name: str, sql: Callable[[str], list[Any]], count: int
) -> float:
    """Records a second, from the first row on. The topic and the table are called `name`. Each key has two records, the
    second with a number of at least half of `count`."""
    jars = cached_jars(f"debezium-jdbc-{VERSION}", ARTIFACTS, f"Debezium's JDBC sink {VERSION} (once, 60 MB)", print)
    log = folder / f"{name}.log"
    command = [str(find_java()), "-Xmx1g", "-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone"]
    with log.open("wb") as written:
        process = subprocess.Popen([*command, *_files(folder, servers, database, name)], stdout=written, stderr=written)
    try:
        until(lambda: sql(f"SELECT 1 FROM {name} LIMIT 1"), lambda: log.read_text()[-3000:], START_S)
        begun = time.monotonic()
        [(first,)] = sql(f"SELECT count(*) FROM {name}")
        while sql(f"SELECT count(*), min(cents) >= {count // 2} FROM {name}") != [(count // 2, True)]:
            assert time.monotonic() - begun < WITHIN_S, log.read_text()[-3000:]
            time.sleep(PACE_S)
        return float((count - first) / (time.monotonic() - begun))
    finally:
        process.terminate()
        process.wait(60)


def _files(folder: Path, servers: str, database: DevPostgres, name: str) -> list[str]:
    given = conninfo_to_dict(database.dsn())
    worker = {
        "bootstrap.servers": servers,
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": folder / f"{name}.offsets",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": JSON,
        "plugin.discovery": "service_load",
        "consumer.max.poll.records": 1000,
    }
    connector = {
        "name": name,
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": 2,
        "topics": name,
        "connection.url": f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}?reWriteBatchedInserts=true",
        "connection.username": given["user"],
        "connection.password": given["password"],
        "insert.mode": "upsert",
        "primary.key.mode": "record_value",
        "primary.key.fields": "id",
        "schema.evolution": "none",
        "batch.size": 1000,
        "collection.name.format": name,
        "use.reduction.buffer": "true",
    }
    files = []
    for kind, settings in (("worker", worker), ("connector", connector)):
        file = folder / f"{name}.{kind}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        files.append(str(file))
    return files
