"""`moneystate console`: what every service does, in the browser."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from moneystate.cli import services
from moneystate.cli.connection import Timeout
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, SecurityFlags
from moneystate.cli.known_services import KNOWN
from moneystate.cli.oidc_flags import OidcFlags
from moneystate.cli.option import ADDRESS, PATH, PATH_OR_URI, Panel, option, pairs, repeated
from moneystate.cli.options import Listen, MaxRequests, SchemaRegistry
from moneystate.cli.service_config import config_file, service_tables
from moneystate.console import process
from moneystate.console.compared_states import savepoints_of
from moneystate.console.deployments import ShownCheckpoint, is_local, service_of
from moneystate.console.options import ConsoleOptions, Security
from moneystate.errors import ConfigError
from moneystate.http import ServiceUrl
from moneystate.runtime.reference import service_at
from moneystate.serving import addresses
from moneystate.serving.client import Target

PROGRAM: Final = (sys.executable, "-m", "moneystate.cli.main")
SHOW_CHECKPOINT: Final = "--show-checkpoint"


def console(
    context: typer.Context,
    cluster: ClusterFlags,
    security_flags: SecurityFlags,
    oidc_flags: OidcFlags,
    state: Annotated[
        list[str] | None,
        repeated(
            "state", "The address of a query server, besides those that announce themselves.", Panel.server, ADDRESS
        ),
    ] = None,
    show_service: Annotated[
        list[str] | None,
        repeated(
            "show-service", "A service besides those of this project: its records and pages.", Panel.service, "SERVICE"
        ),
    ] = None,
    show_savepoint: Annotated[
        list[str] | None,
        repeated("show-savepoint", "A savepoint that the page Compare offers.", Panel.state, "NAME=FOLDER"),
    ] = None,
    show_checkpoint: Annotated[
        list[str] | None,
        repeated(
            "show-checkpoint",
            "A job's checkpoint: its rules and what the next start changes.",
            Panel.state,
            PATH_OR_URI,
        ),
    ] = None,
    show_metrics: Annotated[
        list[str] | None,
        repeated(
            "show-metrics",
            "The address of metrics (a --metrics-port), besides those that announce themselves.",
            Panel.server,
            ADDRESS,
        ),
    ] = None,
    prometheus: Annotated[
        str, option("prometheus", "URL of a Prometheus server whose alerts are shown.", Panel.server, "URL")
    ] = "",
    grafana: Annotated[
        str, option("grafana", "URL of a dashboard that the page of a service links to.", Panel.server, "URL")
    ] = "",
    listen: Listen = "127.0.0.1:8088",
    schema_registry: SchemaRegistry = "",
    allow_writes: Annotated[
        bool, option("allow-writes", "Let readers with the scope state.admin send dead letters again.", Panel.server)
    ] = False,
    state_ca: Annotated[
        str, option("state-ca", "The CA of the query servers' certificates, a PEM file.", Panel.security, PATH)
    ] = "",
    max_requests: MaxRequests = 100,
    timeout: Timeout = "10s",
) -> None:
    """Show what services do, in the browser.

    The pages show the services whose topics of commits the broker has, their lag and dead letters, records of topics,
    and of each query server the state at any version and the declared queries. The command ends with code 0 after
    SIGTERM or Ctrl-C. See docs/console.md.
    """
    for address in state or []:
        addresses.split(address, "--state")
    for address in show_metrics or []:
        addresses.split(address, "--show-metrics")
    words = _words(context, show_service or [])
    plan_flags = _plan_flags(context, cluster.bootstrap_servers, cluster.topic_prefix, cluster.settings())
    process.run(
        ConsoleOptions(
            bootstrap_servers=cluster.bootstrap_servers,
            listen=listen,
            states=[Target(address, ca=state_ca) for address in state or []],
            state_ca=state_ca,
            metrics=show_metrics or [],
            prometheus=_url(prometheus, "--prometheus") if prometheus else None,
            grafana=_url(grafana, "--grafana").url if grafana else "",
            registry_url=schema_registry,
            topic_prefix=cluster.topic_prefix,
            services={name: reference for name, (_, reference) in words.items()},
            savepoints=savepoints_of(pairs(show_savepoint or [], "--show-savepoint"), "--show-savepoint"),
            checkpoints=_checkpoints(show_checkpoint or [], words, plan_flags),
            allow_writes=allow_writes,
            max_requests=float(max_requests),
            timeout_s=parse_ms(timeout, "--timeout", 1) / 1000,
            kafka_config=cluster.settings(),
            security=Security(*security_flags.given()),
            oidc=oidc_flags.client(),
        )
    )


def _words(context: typer.Context, given: list[str]) -> dict[str, tuple[str, str]]:
    """Returns, by the names of services, the words that commands take for them, and their references. Raises
    ConfigError."""
    tables = service_tables(context)
    texts = [*[path for paths in KNOWN.values() for path in paths], *given]
    pairs = [(text, reference) for text in texts for reference in services.load_all(text, tables)]
    return {service_at(reference).name: (word, reference) for word, reference in pairs}


def _checkpoints(
    addresses: list[str], words: dict[str, tuple[str, str]], flags: Sequence[str]
) -> list[ShownCheckpoint]:
    """Raises ConfigError."""
    shown = []
    for address in addresses:
        service = service_of(address, SHOW_CHECKPOINT)
        if service not in words:
            raise ConfigError(
                f"{SHOW_CHECKPOINT} {address}: expected a service that the console knows, found {service}.",
                "name it with --show-service as well.",
            )
        local = ["--local"] if is_local(address) else []
        plan = [*PROGRAM, "plan", words[service][0], "--checkpoint", address, *local, *flags, "--json"]
        export = [*PROGRAM, "checkpoint", "export", "--service", words[service][0], "--checkpoint", address]
        shown.append(ShownCheckpoint(service, address, plan, [*export, "--quiet", "--out"]))
    return shown


def _plan_flags(context: typer.Context, bootstrap_servers: str, topic_prefix: str, kafka: dict[str, str]) -> list[str]:
    """Settings of Kafka clients have references in place of secrets."""
    file = config_file(context)
    prefix = ["--topic-prefix", topic_prefix] if topic_prefix else []
    settings = [word for name, value in kafka.items() for word in ("--kafka-config", f"{name}={value}")]
    config = ["--config", str(file)] if file is not None else []
    return ["--bootstrap-servers", bootstrap_servers, *prefix, *settings, *config]


def _url(text: str, flag: str) -> ServiceUrl:
    """Raises ConfigError."""
    try:
        return ServiceUrl.parse(text)
    except ValueError as e:
        raise ConfigError(f"{flag}: expected a URL such as http://localhost:9090, but {e}.", "correct it.") from None
