"""The interface's server, in a process of its own or in that of a worker."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import uvicorn

from moneystate.api.message import Message
from moneystate.deliver.interface.app import application
from moneystate.deliver.interface.commands import Commands
from moneystate.deliver.interface.keys import Keys
from moneystate.deliver.interface.options import InterfaceOptions
from moneystate.deliver.interface.owned import ENDPOINTS, SUBSCRIPTIONS, CheckSubscription, Owned
from moneystate.deliver.interface.pages import Pages
from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.interface.routing import Parts
from moneystate.deliver.interface.tables import Table
from moneystate.deliver.metrics import request_counter
from moneystate.deliver.router_schemas import delivery_reader
from moneystate.deliver.rows import UrlRules
from moneystate.deliver.secrets import open_store
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.log import get_log
from moneystate.runtime.plans import plan_of
from moneystate.serving import addresses
from moneystate.serving.http_server import Server, address_of, bound
from moneystate.serving.rates import Rates
from moneystate.tables.topic import check_topic, create_topic

_log = get_log(__name__)
FOLLOW_S: Final = 5.0
GRACE_S: Final = 5


def run(options: InterfaceOptions) -> None:
    """Answers requests until SIGTERM or SIGINT. Raises ConfigError, SetupError and BrokerError."""
    check(options)
    check_reachable(options.bootstrap_servers, options.kafka_config)
    with bound(options.listen) as listening, Interface(options) as interface:
        asyncio.run(_until_signal(interface, listening))


def check(options: InterfaceOptions) -> None:
    """Raises ConfigError."""
    addresses.split(options.listen, "--listen")
    options.security.check(options.listen)


class Interface:
    """Between its beginning and its end it is the writer of the tables. Raises ConfigError, SetupError and
    BrokerError."""

    def __init__(self, options: InterfaceOptions) -> None:
        self.options = options
        o = options
        broker = o.bootstrap_servers, o.kafka_config
        store = open_store(o.secrets, o.secrets_key)
        admin = admin_client(*broker)
        self.tables = tuple(Table(*broker, o.topic_prefix + name) for name in (ENDPOINTS, SUBSCRIPTIONS))
        for table in self.tables:
            if o.create_topics:
                create_topic(admin, table.topic, o.table_partitions, o.replication)
            check_topic(admin, table.topic)
        owned = Owned(
            self.tables[0], self.tables[1], store, UrlRules(allow_http=o.allow_http), subscription_check(o.router)
        )
        self.parts = Parts(
            owned=owned,
            keys=Keys(store, owned),
            pages=Pages(*broker, o.topic_prefix),
            commands=Commands(*broker, o.topic_prefix),
            reader=delivery_reader(o.router),
            callers=o.security.callers(),
            audit=o.security.audit(),
            rates=Rates(o.max_requests),
            requests=request_counter(),
            now_ms=lambda: round(time.time() * 1_000),
        )

    def __enter__(self) -> Interface:
        for table in self.tables:
            table.open()
        return self

    def __exit__(self, *_: object) -> None:
        for table in self.tables:
            table.close()
        self.parts.pages.close()
        self.parts.audit.close()

    async def serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        """Answers requests until `stop`."""
        server = Server(self._config())
        listening.listen()
        for line in self.options.security.warnings():
            _log.warning(line)
        address = address_of(listening)
        _log.info(f"listening on {address} ({self.options.security.in_words(address)})")
        following = asyncio.create_task(self._follow())
        serving = asyncio.create_task(server.serve([listening]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        stopping.cancel()
        await serving
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

    async def _follow(self) -> None:
        while True:
            with suppress(Refused):  # the next request says it
                await asyncio.to_thread(self.parts.owned.follow)
            await asyncio.sleep(FOLLOW_S)

    def _config(self) -> uvicorn.Config:
        certificates = self.options.security.certificates()
        config = uvicorn.Config(
            application(self.parts), http="httptools", ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=GRACE_S,
        )  # fmt: skip
        config.load()
        config.ssl = None if certificates is None else certificates.context
        return config


def subscription_check(router: str) -> CheckSubscription:
    """The router's own rules: its table says of a row which one it breaks."""
    tables = {table.topic: table for table in plan_of(router).service.tables.values()}
    decode: Callable[[Message], Any] | None = tables[SUBSCRIPTIONS].decode
    assert decode is not None

    def problem(id: str, value: bytes) -> str:
        text: str = decode(Message(SUBSCRIPTIONS, key=id.encode(), value=value)).problem
        return text

    return problem


async def _until_signal(interface: Interface, listening: socket.socket) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await interface.serve(listening, stop)
