"""`moneystate deliver`: sends deliveries to the endpoints of customers."""

from __future__ import annotations

import asyncio
import signal
import socket
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from moneystate import log
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, MetricsFlags, NewTopicFlags, SecurityFlags
from moneystate.cli.known_services import KNOWN
from moneystate.cli.option import NUMBER, PATH, Flags, Panel, filled, flag, repeated_flag
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


@dataclass(frozen=True)
class DeliverFlags(Flags):
    cluster: ClusterFlags
    new_topics: NewTopicFlags
    security_flags: SecurityFlags
    metrics_flags: MetricsFlags
    group_id: Annotated[str, consumer_group(shown="the topic prefix and deliver")] = ""
    secrets: str = flag("", "Folder or file of the secrets that rows of endpoints name.", Panel.security, PATH)
    secrets_key: str = flag("", "File of the key with which the file of --secrets is encrypted.", Panel.security, PATH)
    allow_http: bool = flag(False, "Let endpoints have URLs without TLS.", Panel.security)
    allow_network: list[str] | None = repeated_flag(
        "A network that requests may go to although its addresses are not public.", Panel.security, "CIDR"
    )
    max_connections: int = flag(1_000, "Connections to endpoints at the same time.", Panel.limits, NUMBER, least=1)
    retry_waits: str = flag(
        "5s,5m,30m,2h,5h,10h,10h",
        "Waits before the second attempt, the third one, and so on; comma-separated.",
        Panel.limits, "DURATIONS",
    )  # fmt: skip
    index: str = flag("", "Folder of the index on disk.", Panel.run, PATH, shown="temporary")
    create_topics: CreateTopics = True
    listen: Listen = ""
    max_requests: MaxRequests = 100
    audit_log: Annotated[str, audit_target(shown="none")] = ""


def deliver(flags: DeliverFlags) -> None:
    """Send deliveries to the endpoints of customers.

    Any number of workers share the partitions. Each message is tried until it has one outcome, also over kills, and
    never with another body. With --listen, the worker also answers HTTP requests about endpoints, subscriptions,
    secrets and messages; it is then the one writer of the tables. The command ends with code 0 after SIGTERM or
    Ctrl-C. See docs/delivery.md.
    """
    [router] = KNOWN[ROUTER]
    options = filled(
        DeliverOptions,
        flags,
        router=router,
        group=flags.group_id or f"{flags.cluster.topic_prefix}deliver",
        worker_id=uuid.uuid4().hex,
        networks=tuple(flags.allow_network or ()),
        waits_ms=(0, *(parse_ms(wait, "--retry-waits") for wait in flags.retry_waits.split(","))),
        replication=flags.new_topics.replication(),
        kafka_config=flags.cluster.settings(),
    )
    options.check()
    interface = _interface(options, flags)
    check_reachable(options.bootstrap_servers, options.kafka_config)
    prepare(options)
    import uvloop  # not for every command

    if interface is None:
        uvloop.run(_until_signal(options, flags.metrics_flags))
        return
    from moneystate.deliver.interface.process import Interface  # FastAPI takes long to import

    with bound(flags.listen) as listening, Interface(interface) as opened:
        uvloop.run(_until_signal(options, flags.metrics_flags, (opened, listening)))


def _interface(options: DeliverOptions, flags: DeliverFlags) -> InterfaceOptions | None:
    """None: there is none. Raises ConfigError."""
    security = filled(Security, flags, client_ca=flags.security_flags.tls_ca)
    if not flags.listen:
        if security != Security():
            raise ConfigError("expected --listen as well, as its options are given.", "add --listen HOST:PORT.")
        return None
    if not flags.secrets:
        raise ConfigError(f"--listen {flags.listen}: expected a store of secrets.", "add --secrets.")
    made = filled(
        InterfaceOptions,
        flags,
        router=options.router,
        table_partitions=flags.new_topics.topic_partitions,
        replication=options.replication,
        kafka_config=options.kafka_config,
        max_requests=float(flags.max_requests),
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
