"""The settings of Debezium's PostgreSQL connector, and what one asks of it through its database."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

# The table for signals as Debezium wants it. It reads the columns by their order.
SIGNALS_TABLE: Final = "CREATE TABLE {} (id text PRIMARY KEY, type text NOT NULL, data text)"
SLOT: Final = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class Connector:
    """Captures tables of one database. New topics have the broker's time of arrival as their timestamps."""

    name: str  # of the connector, its slot and its publication, and the prefix of its topics
    dsn: str  # of a user who may replicate and make a publication
    tables: Sequence[str]  # SCHEMA.TABLE
    signals: str = ""  # the table for signals, SCHEMA.TABLE, which is captured, too; empty: none
    partitions: int = 1  # of new topics of tables
    schemas: bool = False  # events and keys bring their schema
    settings: Mapping[str, str] = field(default_factory=dict)  # override those made here

    def config(self) -> dict[str, str]:
        captured = [*self.tables, *([self.signals] if self.signals else [])]
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            **self._database(),
            "plugin.name": "pgoutput",
            "slot.name": self.name,
            # The slot of a worker that was killed is free again a moment later.
            "slot.retry.delay.ms": "500",
            "slot.max.retries": "60",
            "publication.name": self.name,
            "publication.autocreate.mode": "filtered",
            "topic.prefix": self.name,
            "table.include.list": ",".join(re.escape(table) for table in captured),
            "provide.transaction.metadata": "true",
            "heartbeat.interval.ms": "1000",
            "poll.interval.ms": "20",  # by default a change waits up to 500 ms for others
            "decimal.handling.mode": "string",
            "skipped.operations": "none",  # by default it leaves out truncated tables
            **({"signal.data.collection": self.signals} if self.signals else {}),
            **_converters(self.schemas),
            **self._topics(),
            **self.settings,
        }

    def is_streaming(self) -> bool:
        """Whether the connector has come to the changes: a snapshot at its start is over then."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(SLOT, [self.name]).fetchone() == (True,)

    def drop_slot(self) -> bool:
        """False: the slot is in use."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            active = connection.execute(SLOT, [self.name]).fetchone()
            if active == (False,):
                connection.execute("SELECT pg_drop_replication_slot(%s)", [self.name])
            return active != (True,)

    def ask_snapshot(self, *tables: str, blocking: bool = False) -> None:
        """Signals that these tables are to be read again, while changes go on, or before they do."""
        kind = "blocking" if blocking else "incremental"
        data = json.dumps({"data-collections": tables, "type": kind})
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                f"INSERT INTO {self.signals} VALUES (%s, 'execute-snapshot', %s)", [str(uuid.uuid4()), data]
            )

    def _database(self) -> dict[str, str]:
        given = conninfo_to_dict(self.dsn)
        names = {"host": "hostname", "port": "port", "user": "user", "password": "password", "dbname": "dbname"}
        return {f"database.{theirs}": str(given[ours]) for ours, theirs in names.items()}

    def _topics(self) -> dict[str, str]:
        default = _created("default", self.partitions)
        transaction = _created("transaction", 1)
        included = {"topic.creation.transaction.include": re.escape(f"{self.name}.transaction")}
        return {"topic.creation.groups": "transaction", **default, **transaction, **included}


def _created(group: str, partitions: int) -> dict[str, str]:
    """Says how Connect makes the topics of a group. Only the number of replicas would be taken from the default
    group."""
    settings = {
        "replication.factor": "1",
        "partitions": str(partitions),
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
    }
    return {f"topic.creation.{group}.{name}": value for name, value in settings.items()}


def _converters(schemas: bool) -> dict[str, str]:
    made = {}
    for part in ("key", "value"):
        made[f"{part}.converter"] = JSON_CONVERTER
        made[f"{part}.converter.schemas.enable"] = str(schemas).lower()
    return made
