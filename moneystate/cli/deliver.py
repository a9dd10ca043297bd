"""`moneystate deliver`: sends deliveries to the endpoints of customers."""

from __future__ import annotations

import asyncio
import signal
import socket
import uuid
from typing import TYPE_CHECKING, Annotated

from moneystate import log
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, MetricsFlags, NewTopicFlags, SecurityFlags
from moneystate.cli.known_services import KNOWN
from moneystate.cli.option import NUMBER, PATH, Panel, option, repeated
from moneystate.cli.options import CreateTopics, Listen, MaxRequests, audit_target, consumer_group
from moneystate.deliver.interface.options import InterfaceOptions, Security
from moneystate.deliver.process import DeliverOptions, made_worker, prepare
from moneystate.errors import ConfigError
from moneystate.kafka.client import check_reachable
from moneystate.monitoring import Labelled, Pulse
from moneystate.serving.http_server import bound

if TYPE_CHECKING:
    from moneystate.deliver.interface.process import Interface

ROUTER = "delivery"  # the service whose deliveries are sent
_log = log.get_log(__name__)


def deliver(
    cluster: ClusterFlags,
    new_topics: NewTopicFlags,
    security_flags: SecurityFlags,
    metrics_flags: MetricsFlags,
    group_id: Annotated[str, consumer_group("the topic prefix and deliver")] = "",
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
    retry_waits: Annotated[
        str,
        option(
            "retry-waits",
            "Waits before the second attempt, the third one, and so on; comma-separated.",
            Panel.limits,
            "DURATIONS",
        ),
    ] = "5s,5m,30m,2h,5h,10h,10h",
    index: Annotated[str, option("index", "Folder of the index on disk.", Panel.run, PATH, shown="temporary")] = "",
    create_topics: CreateTopics = True,
    listen: Listen = "",
    max_requests: MaxRequests = 100,
    audit_log: Annotated[str, audit_target("none")] = "",
) -> None:
    """Send deliveries to the endpoints of customers.

    Any number of workers share the partitions. Each message is tried until it has one outcome, also over kills, and
    never with another body. With --listen, the worker also answers HTTP requests about endpoints, subscriptions,
    secrets and messages; it is then the one writer of the tables. The command ends with code 0 after SIGTERM or
    Ctrl-C. See docs/delivery.md.
    """
    [router] = KNOWN[ROUTER]
    options = DeliverOptions(
        router=router,
        bootstrap_servers=cluster.bootstrap_servers,
        group=group_id or f"{cluster.topic_prefix}deliver",
        worker_id=uuid.uuid4().hex,
        topic_prefix=cluster.topic_prefix,
        secrets=secrets,
        secrets_key=secrets_key,
        allow_http=allow_http,
        networks=tuple(allow_network or ()),
        max_connections=max_connections,
        waits_ms=(0, *(parse_ms(wait, "--retry-waits") for wait in retry_waits.split(","))),
        index=index,
        create_topics=create_topics,
        replication=new_topics.replication(),
        kafka_config=cluster.settings(),
    )
    options.check()
    security = Security(*security_flags.given(), audit_log)
    interface = _interface(options, listen, security, new_topics.topic_partitions, max_requests)
    check_reachable(cluster.bootstrap_servers, options.kafka_config)
    prepare(options)
    import uvloop  # not for every command

    if interface is None:
        uvloop.run(_until_signal(options, metrics_flags))
        return
    from moneystate.deliver.interface.process import Interface  # FastAPI takes long to import

    with bound(listen) as listening, Interface(interface) as opened:
        uvloop.run(_until_signal(options, metrics_flags, (opened, listening)))


def _interface(
    options: DeliverOptions, listen: str, security: Security, partitions: int, max_requests: int
) -> InterfaceOptions | None:
    """None: there is none. Raises ConfigError."""
    if not listen:
        if security != Security():
            raise ConfigError("expected --listen as well, as its options are given.", "add --listen HOST:PORT.")
        return None
    if not options.secrets:
        raise ConfigError(f"--listen {listen}: expected a store of secrets.", "add --secrets.")
    made = InterfaceOptions(
        router=options.router,
        bootstrap_servers=options.bootstrap_servers,
        listen=listen,
        secrets=options.secrets,
        secrets_key=options.secrets_key,
        topic_prefix=options.topic_prefix,
        allow_http=options.allow_http,
        create_topics=options.create_topics,
        table_partitions=partitions,
        replication=options.replication,
        kafka_config=options.kafka_config,
        max_requests=float(max_requests),
        security=security,
    )
    from moneystate.deliver.interface.process import check  # FastAPI takes long to import

    check(made)
    return made


async def _until_signal(
    options: DeliverOptions, metrics: MetricsFlags, interface: tuple[Interface, socket.socket] | None = None
) -> None:
    worker, stop = made_worker(options), asyncio.Event()
    metrics.expose(Labelled({ROUTER: worker.metrics.registry}), Pulse().check, worker.ready)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _log.info("started", group=options.group, worker=options.worker_id)
    working = [loop.create_task(worker.run())]
    if interface is not None:
        opened, listening = interface
        worker.metrics.registry.register(opened.parts.requests)
        working.append(loop.create_task(opened.serve(listening, stop)))
    stopping = loop.create_task(stop.wait())
    await asyncio.wait([*working, stopping], return_when=asyncio.FIRST_COMPLETED)
    worker.stop()
    stop.set()
    await asyncio.wait(working)
    for task in working:
        task.result()
    _log.info("ended")
