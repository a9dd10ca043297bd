"""The process of `moneystate console`: its socket, its server, and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import Final

import uvicorn
from starlette.applications import Starlette

from moneystate.console import (
    login,
    page_compare,
    page_faces,
    page_queries,
    page_rules,
    page_services,
    page_state,
    page_topics,
)
from moneystate.console.announced import Announced, Rules
from moneystate.console.endpoints import Endpoints
from moneystate.console.jobs import Jobs
from moneystate.console.live import Live
from moneystate.console.oidc_provider import OidcProvider
from moneystate.console.options import ConsoleOptions
from moneystate.console.registered import Registered
from moneystate.console.servers import Servers
from moneystate.console.site import Page, Site, application
from moneystate.console.topics import Topics
from moneystate.kafka.announcements import TOPIC, Announcements
from moneystate.kafka.client import check_reachable
from moneystate.log import get_log
from moneystate.serving import addresses
from moneystate.serving.http_server import Server, address_of, bound
from moneystate.serving.rates import Rates

_log = get_log(__name__)
GET, POST = "GET", "POST"
LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
PAGES: Final[list[tuple[str, str, Page]]] = [
    (GET, "/", page_services.services),
    (GET, "/live/services", page_services.live_services),
    (GET, "/services/{service}", page_services.service),
    (GET, "/live/services/{service}", page_services.live_service),
    (GET, "/services/{service}/pages/{face}", page_faces.face),
    (GET, "/services/{service}/rules", page_rules.rules),
    (GET, "/state", page_state.kinds),
    (GET, "/state/{service}", page_state.key),
    (GET, "/state/{service}/{state}", page_state.records),
    (GET, "/state/{service}/{state}/record", page_state.record),
    (GET, "/state/{service}/{state}/events", page_state.causes),
    (GET, "/queries", page_queries.queries),
    (GET, "/queries/{service}/{query}", page_queries.query),
    (GET, "/compare", page_compare.compare),
    (GET, "/topics", page_topics.topics),
    (GET, "/topics/{topic}", page_topics.topic),
    (GET, "/dead-letters/{service}", page_topics.letters),
    (GET, "/dead-letters/{service}/{place}", page_topics.letter),
    (POST, "/dead-letters/{service}/{place}", page_topics.send_again),
]


def run(options: ConsoleOptions) -> None:
    """Serves pages until SIGTERM or SIGINT. Raises ConfigError, SetupError and BrokerError."""
    addresses.split(options.listen, "--listen")
    options.check()
    servers = Servers(options.states, options.timeout_s)
    if options.security.token_key:
        servers.check_tokens()
    check_reachable(options.bootstrap_servers, options.kafka_config)
    with bound(options.listen) as listening:
        asyncio.run(_serve(options, servers, listening))


def site_of(options: ConsoleOptions, servers: Servers) -> Starlette:
    broker = options.bootstrap_servers, options.kafka_config, options.topic_prefix
    rules = Rules(socket.gethostname(), options.state_ca, bool(options.security.token_key))
    endpoints = Endpoints(options.metrics, options.prometheus)
    announced = Announced(TOPIC, Announcements(*broker).read, rules, servers.announced, endpoints.announced)
    site = Site(
        servers=servers,
        live=Live(Jobs(*broker), endpoints, announced),
        topics=Topics(*broker),
        sessions=options.security.sessions(),
        services=options.services,
        allow_writes=options.allow_writes,
        hosts=LOCAL if addresses.is_loopback(options.listen) else frozenset(),
        is_secure=bool(options.security.tls_cert),
        oidc=None if options.oidc is None else OidcProvider(options.oidc),
        savepoints=options.savepoints,
        checkpoints=options.checkpoints,
        grafana=options.grafana,
        registry_url=options.registry_url,
        registered=Registered(options.registry_url).read if options.registry_url else None,
        limits=Rates(options.max_requests),
    )
    app = application(site, PAGES)
    app.router.routes[:0] = login.routes(site)
    return app


async def _serve(options: ConsoleOptions, servers: Servers, listening: socket.socket) -> None:
    certificates = options.security.certificates()
    config = uvicorn.Config(
        site_of(options, servers), lifespan="on", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    config.load()
    config.ssl = None if certificates is None else certificates.context
    server = Server(config)
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(server.serve([listening]))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, server)
    listening.listen()
    scheme = "https" if options.security.tls_cert else "http"
    for line in options.security.warnings():
        _log.warning(line)
    _log.info(f"listening on {scheme}://{address_of(listening)}/", states=", ".join(servers.clients))
    await serving


def _end(server: Server) -> None:
    server.should_exit = True
