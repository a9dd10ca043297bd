"""`moneystate serve`: a replica of the state that answers queries."""

from __future__ import annotations

from typing import Annotated

import typer

from moneystate.cli import registry, services
from moneystate.cli.durations import parse_ms
from moneystate.cli.options import KafkaConfig, KafkaConfigFile, PlainService, check_given, flag, kafka_settings
from moneystate.cli.settings_file import ConfigFile
from moneystate.errors import ConfigError
from moneystate.serving import supervisor
from moneystate.serving.limits import Limits
from moneystate.serving.options import Security, ServeOptions

DEFAULT_LISTEN = "127.0.0.1:8484"
MAX_WORKERS = 64


def serve(
    context: typer.Context,
    bootstrap_servers: Annotated[str, flag("BOOTSTRAP_SERVERS", "Kafka brokers, HOST:PORT,...")],
    data: Annotated[str, flag("DATA", "Folder of the replica; made where it is not there.")],
    listen: Annotated[str, flag("LISTEN", "HOST:PORT to answer on; port 0: a free one.")] = DEFAULT_LISTEN,
    topic_prefix: Annotated[str, flag("TOPIC_PREFIX", "Goes before each topic's name.")] = "",
    service: PlainService = "",
    config: ConfigFile = None,
    history: Annotated[str, flag("HISTORY", "How long versions are kept.")] = "24h",
    history_versions: Annotated[
        int, flag("HISTORY_VERSIONS", "Keep no more than so many versions; 0: as --history says.")
    ] = 0,
    lineage: Annotated[
        bool, flag("LINEAGE", "Follow the enriched events too, so that money that was put out can be explained.")
    ] = True,
    workers: Annotated[int, flag("WORKERS", "Processes that answer, beside the one that follows the log.")] = 1,
    grace: Annotated[str, flag("GRACE", "On SIGTERM, running calls have so long to finish.")] = "10s",
    metrics_port: Annotated[int, flag("METRICS_PORT", "Prometheus metrics; 0: none.")] = 0,
    metrics_host: Annotated[
        str, flag("METRICS_HOST", "Address for --metrics-port. They need no token: 0.0.0.0 shows them to everybody.")
    ] = "127.0.0.1",
    tls_cert: Annotated[str, flag("TLS_CERT", "PEM file: the server's certificate. Read again when it changes.")] = "",
    tls_key: Annotated[str, flag("TLS_KEY", "PEM file: the key of --tls-cert.")] = "",
    client_ca: Annotated[str, flag("CLIENT_CA", "PEM file: clients need a certificate that it has signed.")] = "",
    token_key: Annotated[
        str,
        flag(
            "TOKEN_KEY", "Checks callers' tokens (JWT): a public key as PEM, or a JWK set. Read again when it changes."
        ),
    ] = "",
    token_audience: Annotated[str, flag("TOKEN_AUDIENCE", "Tokens must be for this audience.")] = "",
    token_issuer: Annotated[str, flag("TOKEN_ISSUER", "Tokens must be of this issuer.")] = "",
    scopes: Annotated[
        str, flag("SCOPES", "Without tokens: what callers may do; on loopback else everything. SCOPE,...")
    ] = "",
    audit_log: Annotated[
        str,
        flag("AUDIT_LOG", "File, or - for stdout: who read personal fields; - where callers have to say who they are."),
    ] = "",
    page_token_key: Annotated[
        str, flag("PAGE_TOKEN_KEY", "File that replicas share so that listings go on at another; else one in --data.")
    ] = "",
    max_streams: Annotated[
        int, flag("MAX_STREAMS", "Streams at once, in each worker; more are refused.")
    ] = Limits.streams,
    max_streams_per_caller: Annotated[
        int, flag("MAX_STREAMS_PER_CALLER", "The same of one caller: a token's subject, a certificate, or a machine.")
    ] = Limits.streams_per_caller,
    max_calls: Annotated[
        int, flag("MAX_CALLS", "Listings and other long calls at once, in each worker.")
    ] = Limits.calls,
    max_calls_per_caller: Annotated[
        int, flag("MAX_CALLS_PER_CALLER", "The same of one caller.")
    ] = Limits.calls_per_caller,
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
) -> None:
    """Follow the state's changelog and answer queries over gRPC.

    Ends with code 0 after SIGTERM, once running calls have been answered. docs/queries.md has the rest.
    """
    check_given(bootstrap_servers=bootstrap_servers, data=data)
    if not 1 <= workers <= MAX_WORKERS:
        raise ConfigError(f"--workers {workers}: expected 1 to {MAX_WORKERS}.")
    if history_versions < 0:
        raise ConfigError(f"--history-versions {history_versions}: expected 0 or more.")
    options = ServeOptions(
        bootstrap_servers=bootstrap_servers,
        data=data,
        listen=listen,
        topic_prefix=topic_prefix,
        history_ms=parse_ms(history, "--history"),
        history_versions=history_versions or None,
        follow_lineage=lineage,
        workers=workers,
        grace_s=parse_ms(grace, "--grace") / 1000,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        page_token_key=page_token_key,
        kafka_config=kafka_settings(kafka_config_file, kafka_config),
        security=Security(
            tls_cert, tls_key, client_ca, token_key, token_audience, token_issuer, scopes, audit_log
        ),
        limits=_limits(max_streams, max_streams_per_caller, max_calls, max_calls_per_caller),
    )  # fmt: skip
    face = registry.face_of(services.chosen(context, service, config))
    supervisor.serve(options, face, lambda line: typer.echo(line, err=True))


def _limits(streams: int, streams_per_caller: int, calls: int, calls_per_caller: int) -> Limits:
    """Raises ConfigError."""
    given = {
        "--max-streams": streams,
        "--max-streams-per-caller": streams_per_caller,
        "--max-calls": calls,
        "--max-calls-per-caller": calls_per_caller,
    }
    for name, most in given.items():
        if most < 1:
            raise ConfigError(f"{name} {most}: expected 1 or more.")
    return Limits(streams, streams_per_caller, calls, calls_per_caller)
