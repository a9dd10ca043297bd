"""What an application has done and what is left: for `moneystate apply status`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.config import Settings
from moneystate.apply.database import Connected
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import log_ends

# Old snapshots keep deleted rows of the outbox from being removed, and make it slow.
SNAPSHOT = (
    "SELECT coalesce(max(extract(epoch FROM now() - xact_start)), 0)::float8 FROM pg_stat_activity "
    "WHERE backend_xmin IS NOT NULL AND datname = current_database() AND pid <> pg_backend_pid()"
)


@dataclass(frozen=True)
class PartitionStatus:
    """One partition of a target."""

    target: str
    topic: str
    partition: int
    position: int
    lag: int  # offsets up to the end of the log, with transaction markers
    rate: float  # offsets a second
    stopped: str  # why it does not go on; empty: it does


@dataclass(frozen=True)
class Status:
    partitions: list[PartitionStatus]
    versions: list[dict[str, Any]]  # of state targets
    outbox: int
    oldest_snapshot_s: float  # how long the longest transaction of the database has lasted


def status_of(
    settings: Settings, connection: Connected, interval_s: float, sleep: Callable[[float], None] = time.sleep
) -> Status:
    """Looks twice, `interval_s` apart, for the rates. Raises BrokerError and psycopg's errors."""
    books = Bookkeeping(settings.schema, settings.application)
    before = {target.name: books.stored(connection, target.name) for target in settings.targets}
    sleep(interval_s)
    admin = admin_client(settings.bootstrap_servers, dict(settings.kafka))
    partitions: list[PartitionStatus] = []
    for target in settings.targets:
        stopped = books.stops(connection, target.name)
        now = books.stored(connection, target.name)
        ends = log_ends(admin, [(p.topic, p.number) for p in now])
        for p, (position, _) in sorted(now.items()):
            rate = (position - before[target.name].get(p, (position, ""))[0]) / interval_s
            lag = max(0, ends[p.topic, p.number] - position)
            partitions.append(PartitionStatus(target.name, p.topic, p.number, position, lag, rate, stopped.get(p, "")))
    return Status(
        partitions,
        books.all_versions(connection),
        books.count(connection, settings.outbox_limit),
        longest_transaction_s(connection),
    )


def longest_transaction_s(connection: Connected) -> float:
    """Returns how long the longest transaction of the database has lasted, in seconds."""
    row = connection.execute(SNAPSHOT).fetchone()
    return 0.0 if row is None else float(row[0])
