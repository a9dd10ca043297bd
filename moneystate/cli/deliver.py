"""`moneystate deliver`: sends deliveries to the endpoints of customers."""

from __future__ import annotations

import asyncio
import signal
import uuid
from typing import Annotated

from moneystate import log
from moneystate.cli.flag_groups import KafkaFlags, NewTopicFlags
from moneystate.cli.known_services import KNOWN
from moneystate.cli.option import NUMBER, PATH, Panel, check_given, option, repeated
from moneystate.cli.options import BootstrapServers, CreateTopics, MetricsHost, MetricsPort, TopicPrefix
from moneystate.deliver.process import DeliverOptions, made_worker, prepare
from moneystate.deliver.worker import Worker
from moneystate.kafka.client import check_reachable
from moneystate.monitoring import Labelled, Pulse, expose

ROUTER = "delivery"  # the service whose deliveries are sent
_log = log.get_log(__name__)


def deliver(
    bootstrap_servers: BootstrapServers,
    kafka_flags: KafkaFlags,
    new_topics: NewTopicFlags,
    topic_prefix: TopicPrefix = "",
    group_id: Annotated[
        str,
        option("group-id", "Consumer group of all workers.", Panel.run, "NAME", shown="the topic prefix and deliver"),
    ] = "",
    secrets: Annotated[
        str, option("secrets", "Folder or file of the secrets that rows of endpoints name.", Panel.security, PATH)
    ] = "",
    secrets_key: Annotated[
        str,
        option("secrets-key", "File of the key with which the file of --secrets is encrypted.", Panel.security, PATH),
    ] = "",
    allow_http: Annotated[bool, option("allow-http", "Let endpoints have URLs without TLS.", Panel.security)] = False,
    allow_network: Annotated[
        list[str] | None,
        repeated(
            "allow-network",
            "A network that requests may go to although its addresses are not public.",
            Panel.security,
            "CIDR",
        ),
    ] = None,
    max_connections: Annotated[
        int, option("max-connections", "Connections to endpoints at the same time.", Panel.limits, NUMBER, least=1)
    ] = 1_000,
    create_topics: CreateTopics = True,
    metrics_port: MetricsPort = 0,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Send the deliveries of the service `delivery` to the endpoints of customers.

    Any number of workers share the partitions. Each message is tried until it has one outcome, also over kills, and
    never with another body. The command ends with code 0 after SIGTERM or Ctrl-C. See docs/delivery.md.
    """
    check_given(bootstrap_servers=bootstrap_servers)
    [router] = KNOWN[ROUTER]
    options = DeliverOptions(
        router=router,
        bootstrap_servers=bootstrap_servers,
        group=group_id or f"{topic_prefix}deliver",
        worker_id=uuid.uuid4().hex,
        topic_prefix=topic_prefix,
        secrets=secrets,
        secrets_key=secrets_key,
        allow_http=allow_http,
        networks=tuple(allow_network or ()),
        max_connections=max_connections,
        create_topics=create_topics,
        replication=new_topics.replication(),
        kafka_config=kafka_flags.settings(),
    )
    options.check()
    check_reachable(bootstrap_servers, options.kafka_config)
    prepare(options)
    asyncio.run(_until_signal(options, (metrics_host, metrics_port)))


async def _until_signal(options: DeliverOptions, metrics_at: tuple[str, int]) -> None:
    worker = made_worker(options)
    host, port = metrics_at
    if port:
        expose(host, port, Labelled({ROUTER: worker.metrics.registry}), Pulse().check, worker.ready)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, worker)
    _log.info("started", group=options.group, worker=options.worker_id)
    await worker.run()
    _log.info("ended")


def _stop(worker: Worker) -> None:
    worker.stop()
