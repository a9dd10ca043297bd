"""`moneystate console`: what every service does, in the browser."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import typer

from moneystate.cli import services
from moneystate.cli.connection import Timeout
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, SecurityFlags
from moneystate.cli.known_services import KNOWN
from moneystate.cli.oidc_flags import OidcFlags
from moneystate.cli.option import ADDRESS, PATH, PATH_OR_URI, Flags, Panel, filled, flag, pairs, repeated_flag
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


@dataclass(frozen=True)
class ConsoleFlags(Flags):
    cluster: ClusterFlags
    security_flags: SecurityFlags
    oidc_flags: OidcFlags
    state: list[str] | None = repeated_flag(
        "The address of a query server, besides those that announce themselves.", Panel.server, ADDRESS
    )
    show_service: list[str] | None = repeated_flag(
        "A service besides those of this project: its records and pages.", Panel.service, "SERVICE"
    )
    show_savepoint: list[str] | None = repeated_flag(
        "A savepoint that the page Compare offers.", Panel.state, "NAME=FOLDER"
    )
    show_checkpoint: list[str] | None = repeated_flag(
        "A job's checkpoint: its rules and what the next start changes.", Panel.state, PATH_OR_URI
    )
    show_metrics: list[str] | None = repeated_flag(
        "The address of metrics (a --metrics-port), besides those that announce themselves.", Panel.server, ADDRESS
    )
    prometheus: str = flag("", "URL of a Prometheus server whose alerts are shown.", Panel.server, "URL")
    grafana: str = flag("", "URL of a dashboard that the page of a service links to.", Panel.server, "URL")
    listen: Listen = "127.0.0.1:8088"
    schema_registry: SchemaRegistry = ""
    allow_writes: bool = flag(False, "Let readers with the scope state.admin send dead letters again.", Panel.server)
    state_ca: str = flag("", "The CA of the query servers' certificates, a PEM file.", Panel.security, PATH)
    max_requests: MaxRequests = 100
    timeout: Timeout = "10s"


def console(context: typer.Context, flags: ConsoleFlags) -> None:
    """Show what services do, in the browser.

    The pages show the services whose topics of commits the broker has, their lag and dead letters, records of topics,
    and of each query server the state at any version and the declared queries. The command ends with code 0 after
    SIGTERM or Ctrl-C. See docs/console.md.
    """
    for address in flags.state or []:
        addresses.split(address, "--state")
    for address in flags.show_metrics or []:
        addresses.split(address, "--show-metrics")
    words, kafka = _words(context, flags.show_service or []), flags.cluster.settings()
    plan_flags = _plan_flags(context, flags.cluster.bootstrap_servers, flags.cluster.topic_prefix, kafka)
    process.run(
        filled(
            ConsoleOptions,
            flags,
            states=[Target(address, ca=flags.state_ca) for address in flags.state or []],
            metrics=flags.show_metrics or [],
            prometheus=_url(flags.prometheus, "--prometheus") if flags.prometheus else None,
            grafana=_url(flags.grafana, "--grafana").url if flags.grafana else "",
            registry_url=flags.schema_registry,
            services={name: reference for name, (_, reference) in words.items()},
            savepoints=savepoints_of(pairs(flags.show_savepoint or [], "--show-savepoint"), "--show-savepoint"),
            checkpoints=_checkpoints(flags.show_checkpoint or [], words, plan_flags),
            max_requests=float(flags.max_requests),
            timeout_s=parse_ms(flags.timeout, "--timeout", 1) / 1000,
            kafka_config=kafka,
            security=filled(Security, flags, client_ca=flags.security_flags.tls_ca),
            oidc=flags.oidc_flags.client(),
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
