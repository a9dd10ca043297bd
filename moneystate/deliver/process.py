"""A worker as a process: its options, checked as far as files and flags allow, and the topics that it needs."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from moneystate.deliver import history, pending, status_events, statuses
from moneystate.deliver.addresses import Addresses
from moneystate.deliver.dispatcher import Bounds
from moneystate.deliver.history import RECORD_BYTES
from moneystate.deliver.outcomes import WAITS_MS
from moneystate.deliver.router_schemas import delivery_reader
from moneystate.deliver.rows import UrlRules
from moneystate.deliver.secrets import Store, open_store
from moneystate.deliver.sending import Sender
from moneystate.deliver.worker import DELIVERIES, Worker, WorkerConfig
from moneystate.errors import ConfigError, SetupError
from moneystate.kafka.client import admin_client
from moneystate.kafka.topics import AS_THE_BROKER, Replication, TopicSpec, check_topics, ensure_topics, partition_counts
from moneystate.open_files import raise_limit

DAY_MS: Final = 86_400_000
OTHER_FILES: Final = 200  # of Kafka's clients, the index and the interface
LOG_MS: Final = 30 * DAY_MS


@dataclass(frozen=True)
class DeliverOptions:
    router: str  # reference of the service that writes deliveries
    bootstrap_servers: str
    group: str
    worker_id: str  # of this worker alone
    topic_prefix: str = ""
    secrets: str = ""  # folder or file; empty: there are none
    secrets_key: str = ""
    allow_http: bool = False
    networks: tuple[str, ...] = ()
    max_connections: int = 1_000
    index: str = ""  # folder; empty: a temporary one
    waits_ms: tuple[int, ...] = WAITS_MS  # before each attempt, the first one included
    create_topics: bool = True
    replication: Replication = AS_THE_BROKER
    kafka_config: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises ConfigError."""
        self.addresses()
        self.store()
        self._raise_open_files()

    def _raise_open_files(self) -> None:
        """Raises ConfigError if there can be fewer than connections need."""
        needed, most = self.max_connections + OTHER_FILES, raise_limit()
        if most < needed:
            raise ConfigError(
                f"--max-connections {self.max_connections}: expected a limit of open files of at least {needed}, "
                f"found {most}.",
                "raise the limit (ulimit -Hn), or lower --max-connections.",
            )

    def addresses(self) -> Addresses:
        """Raises ConfigError."""
        own = [its.address for all in psutil.net_if_addrs().values() for its in all
               if its.family in (socket.AF_INET, socket.AF_INET6)]  # fmt: skip
        try:
            return Addresses(own, self.networks)
        except ValueError as e:
            raise ConfigError(
                f"--allow-network: expected networks such as 10.0.0.0/8, but {e}.", "correct it."
            ) from None

    def store(self) -> Store | None:
        """Raises ConfigError."""
        return open_store(self.secrets, self.secrets_key) if self.secrets else None


def prepare(options: DeliverOptions) -> None:
    """Makes the topics of the workers, with as many partitions as `deliveries`. Raises SetupError."""
    admin = admin_client(options.bootstrap_servers, options.kafka_config)
    name = options.topic_prefix + DELIVERIES
    partitions = partition_counts(admin).get(name)
    if partitions is None:
        raise SetupError(
            f"{name}: expected the topic of the router, found none.",
            "start the service `delivery` first.",
        )
    prefix = options.topic_prefix
    wanted = [
        TopicSpec(prefix + history.LOG, partitions, exactly=True, retention_ms=LOG_MS),
        TopicSpec(
            prefix + history.UNDELIVERED,
            partitions,
            exactly=True,
            retention_ms=LOG_MS,
            message_bytes=RECORD_BYTES,
            bytes_advice="raise it.",
        ),
        TopicSpec(prefix + history.COMMANDS, partitions, exactly=True),
        TopicSpec(
            prefix + pending.PENDING,
            partitions,
            compacted=True,
            exactly=True,
            message_bytes=RECORD_BYTES,
            bytes_advice="raise it.",
        ),
        TopicSpec(prefix + statuses.STATUSES, partitions, compacted=True, exactly=True),
        TopicSpec(prefix + status_events.EVENTS, partitions, retention_ms=LOG_MS, broker_time=True),
    ]
    check_topics(admin, wanted, options.create_topics)
    ensure_topics(admin, wanted, options.create_topics, options.replication)


def made_worker(options: DeliverOptions) -> Worker:
    """Raises ConfigError."""
    config = WorkerConfig(
        options.bootstrap_servers, options.group, options.worker_id, delivery_reader(options.router),
        UrlRules(options.allow_http), options.store(), options.topic_prefix,
        Path(options.index) if options.index else None, options.kafka_config, Bounds(waits_ms=options.waits_ms),
    )  # fmt: skip
    return Worker(config, Sender(options.addresses(), options.max_connections))
