"""The process of `moneystate ingest`: its socket, its server, and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
import uuid
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import uvicorn
from confluent_kafka.admin import AdminClient

from moneystate.errors import JobError
from moneystate.ingest.app import App, Ingest
from moneystate.ingest.metrics import Metrics
from moneystate.ingest.options import IngestOptions
from moneystate.ingest.reach import Reach
from moneystate.ingest.sockets import Sockets
from moneystate.ingest.topics import Settings, Topic, by_name, topics_of
from moneystate.ingest.writing import KafkaSettings, Writing
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.topics import TopicSpec, ensure_topics, partition_counts
from moneystate.log import get_log
from moneystate.monitoring import Health, Labelled, Pulse, expose
from moneystate.registry.client import RegistryClient
from moneystate.registry.confluent import ConfluentFormat, subject_of
from moneystate.runtime.json_topic import CONFLUENT
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import service_at
from moneystate.schemas.topic_schemas import schema_set
from moneystate.serving import addresses
from moneystate.serving.garbage import spare_garbage_collection
from moneystate.serving.http_server import Server, address_of, bound

_log = get_log(__name__)

KEYS_TOPIC: Final = "ingest-keys"
BEAT_S: Final = 1.0
KEEP_ALIVE_S: Final = 75  # longer than load balancers keep idle connections: they must be the ones to close
BACKLOG: Final = 2_048  # connections that wait to be accepted


def run(options: IngestOptions) -> None:
    """Takes requests until SIGTERM or SIGINT. Raises ConfigError, SetupError and JobError."""
    # A producer that was fenced, or that is replaced while Kafka is away, gives this warning.
    warnings.filterwarnings("ignore", "Producer abort_transaction failed during close", RuntimeWarning)
    addresses.split(options.listen, "--listen")
    options.security.check(options.listen)
    topics = declared_topics(options)
    check_reachable(options.bootstrap_servers, options.kafka_config)
    admin = admin_client(options.bootstrap_servers, options.kafka_config)
    key_partitions = _make_topics(admin, options, topics)
    with bound(options.listen) as listening:
        asyncio.run(_Process(options, topics, admin, key_partitions, listening).run())


def declared_topics(options: IngestOptions) -> Mapping[str, Topic]:
    """The topics of all services, by name. Raises ServiceError, and BrokerError if a schema registry is needed and does
    not answer."""
    made: list[Topic] = []
    for reference in options.services:
        plan = plan_of(reference)
        declared = {i.topic: i.format for i in plan.service.inputs}
        for name in topics_of(plan):
            format = options.topics.formats.get(name, declared[name])
            made.append(Topic(plan, name, _settings(options, reference, name, format)))
    return by_name(made)


def _settings(options: IngestOptions, reference: str, name: str, format: str) -> Settings:
    t = options.topics
    if format != CONFLUENT:
        return Settings(t.prefix, format, t.max_record_bytes)
    plan, subject = plan_of(reference), subject_of(t.prefix + name)
    confluent = ConfluentFormat(schema_set(reference), RegistryClient(t.registry_url), subject)
    confluent.register(plan.inputs[plan.codes[name]])
    return Settings(t.prefix, format, t.max_record_bytes, confluent.from_canonical)


def _make_topics(admin: AdminClient, options: IngestOptions, topics: Mapping[str, Topic]) -> int:
    """Returns the number of key partitions."""
    t = options.topics
    keys = t.prefix + KEYS_TOPIC
    wanted = [TopicSpec(topic.topic, t.partitions, broker_time=topic.is_by_arrival) for topic in topics.values()]
    # twice as long as keys count: the broker's clock may be ahead
    wanted.append(TopicSpec(keys, t.key_partitions, retention_ms=2 * options.keep_ms))
    ensure_topics(admin, wanted, t.create, t.replication)
    return partition_counts(admin)[keys]


class _Process:
    def __init__(
        self, options: IngestOptions, topics: Mapping[str, Topic], admin: AdminClient, key_partitions: int,
        listening: socket.socket,
    ) -> None:  # fmt: skip
        self.options = options
        self.topics = topics
        self.admin = admin
        self.key_partitions = key_partitions
        self.listening = listening
        self.metrics = Metrics()
        self.pulse = Pulse()
        self.is_stopping = False

    async def run(self) -> None:
        options = self.options
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        self.reach = Reach(self.admin, options.topics.prefix + KEYS_TOPIC)
        self.writing = Writing(self._kafka_settings(), self.admin, self.reach)
        await self.writing.read_keys()
        self.sockets = Sockets()
        audit = options.security.audit()
        ingest = Ingest(
            self.topics, options.security.callers(), self.writing, options.limits, self.metrics, audit,
            self._pages(), self.sockets,
        )  # fmt: skip
        self.sockets.ingest = self.ingest = ingest
        self._expose()
        server = Server(self._config(ingest))
        serving = asyncio.create_task(server.serve([self.listening]))
        helpers = [asyncio.create_task(self.reach.watch()), asyncio.create_task(self._beat())]
        self._announce()
        try:
            await self._until(stop, serving)
            await self._drain(server, serving)
        finally:
            for task in helpers:
                task.cancel()
            await self.writing.close()
            audit.close()

    def _kafka_settings(self) -> KafkaSettings:
        o = self.options
        return KafkaSettings(
            servers=o.bootstrap_servers,
            keys_topic=o.topics.prefix + KEYS_TOPIC,
            key_partitions=self.key_partitions,
            instance=uuid.uuid4().hex,
            timeout_s=o.timeout_s,
            keep_ms=o.keep_ms,
            key_memory_bytes=o.key_memory_bytes,
            extra=o.kafka_config,
        )

    def _pages(self) -> App:
        # here: FastAPI takes longer to import than all the rest
        from moneystate.ingest import pages

        return pages.pages(self.topics.values()) if self.options.pages else pages.nothing

    def _config(self, app: Ingest) -> uvicorn.Config:
        certificates = self.options.security.certificates()
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="websockets-sansio",
            ws_max_size=self.options.limits.body_bytes,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=round(self.options.grace_s),
        )
        config.load()
        config.ssl = None if certificates is None else certificates.context
        return config

    def _announce(self) -> None:
        self.listening.listen(BACKLOG)  # from now on connections wait, if only for a moment
        spare_garbage_collection()
        address = address_of(self.listening)
        for line in self.options.security.warnings():
            _log.warning(line)
        security = self.options.security.in_words(address)
        _log.info(f"listening on {address} ({security})", topics=", ".join(sorted(self.topics)))

    async def _beat(self) -> None:
        while True:
            self.pulse.beat()
            self.writing.expire()
            await asyncio.sleep(BEAT_S)

    async def _until(self, stop: asyncio.Event, serving: asyncio.Task[None]) -> None:
        """Raises JobError if the server ends by itself."""
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            raise JobError(
                "expected the server to run, but it has ended.", "see its log above."
            ) from serving.exception()

    async def _drain(self, server: Server, serving: asyncio.Task[None]) -> None:
        """Answers what is open. New connections are refused."""
        self.is_stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.options.grace_s):
                await self.sockets.drain()
        server.should_exit = True
        await serving

    def _expose(self) -> None:
        m, w = self.metrics, self.writing
        m.watch("requests_open", "Requests that are open.", lambda: self.ingest.room.requests)
        m.watch("open_bytes", "Bytes of the bodies of open requests.", lambda: self.ingest.room.bytes)
        m.watch("keys", "Idempotency keys that are kept in memory.", w.kept_keys)
        m.watch("key_bytes", "About what they take in memory.", w.key_bytes)
        m.watch("takeovers", "How often this process has taken over a key partition.", w.takeovers)
        m.watch("kafka_reached", "1: Kafka answers.", lambda: float(self.reach.is_reached))
        if self.options.metrics_port:
            names = ", ".join([service_at(reference).name for reference in self.options.services])
            values = Labelled({names: m})
            expose(self.options.metrics_host, self.options.metrics_port, values, self.pulse.check, self._ready)

    def _ready(self) -> Health:
        return Health(False, "stopping") if self.is_stopping else self.reach.check()
