"""`moneystate lookup-worker`: answers the job's session lookups from an external HTTP service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from prometheus_client import start_http_server

from moneystate.cli.durations import parse_ms
from moneystate.cli.options import (
    Format,
    KafkaConfig,
    KafkaConfigFile,
    MinInsyncReplicas,
    ReplicationFactor,
    check_given,
    flag,
    formats,
    kafka_settings,
    replication,
)
from moneystate.engine.processor import InputTopic
from moneystate.errors import ConfigError, JobError, SetupError
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.convert import converters, writers
from moneystate.kafka.topics import TopicSpec, ensure_topics
from services.enrichment import topics
from services.enrichment.cli.lookup_display import LookupDisplay
from services.enrichment.lookup.http import ServiceConfig
from services.enrichment.lookup.metrics import Metrics
from services.enrichment.lookup.resolver import Policy
from services.enrichment.lookup.worker import Worker, WorkerConfig

REQUESTS = topics.STREAMS[topics.LOOKUP_REQUESTS]
RESULTS = topics.INPUTS[topics.LOOKUP_RESULTS].name
REQUESTS_INPUT = InputTopic(topics.WALLET_EVENTS + 1, REQUESTS, False, 0)  # beside the job's inputs
SHOW_EVERY_S = 0.5
# After a signal. Calls to a broker that is away can last for minutes, and nothing is lost by a hard end: the protocol
# of docs/lookups.md takes a kill at any moment.
END_S = 20.0


def lookup_worker(
    bootstrap_servers: Annotated[str, flag("BOOTSTRAP_SERVERS", "Kafka brokers, HOST:PORT,...")],
    url_template: Annotated[str, flag("URL_TEMPLATE", "The service, as https://host/sessions/{userSessionId}.")],
    topic_prefix: Annotated[str, flag("TOPIC_PREFIX", "Goes before each topic's name.")] = "",
    group_id: Annotated[
        str, flag("GROUP_ID", "Consumer group of all workers; else the topic prefix and session-lookup-worker.")
    ] = "",
    worker_id: Annotated[
        str,
        flag(
            "WORKER_ID",
            "A name of this worker alone that it keeps over restarts (its number, its host): what a killed one left "
            "open then ends at its restart, not by a timeout. Else made up.",
        ),
    ] = "",
    data: Annotated[str, flag("DATA", "Folder of the index of answers; else a temporary one, rebuilt each time.")] = "",
    concurrency: Annotated[int, flag("CONCURRENCY", "Calls to the service at the same time.")] = 100,
    timeout: Annotated[str, flag("TIMEOUT", "Of one call.")] = "1s",
    attempts: Annotated[int, flag("ATTEMPTS", "Calls for a session before its requests are FAILED.")] = 3,
    deadline: Annotated[str, flag("DEADLINE", "Of all of a session's calls and the waits between them.")] = "10s",
    backoff: Annotated[str, flag("BACKOFF", "Before the second call; then twice as long each time.")] = "100ms",
    rate_limit: Annotated[float, flag("RATE_LIMIT", "Calls a second at most; 0: as many as there are.")] = 0.0,
    breaker_threshold: Annotated[
        int, flag("BREAKER_THRESHOLD", "So many failed calls without a success among them: the service is down.")
    ] = 10,
    bearer_token_file: Annotated[str, flag("BEARER_TOKEN_FILE", "File with the token; read again when changed.")] = "",
    client_cert: Annotated[str, flag("CLIENT_CERT", "Certificate (PEM) that the worker shows.")] = "",
    client_key: Annotated[str, flag("CLIENT_KEY", "Its key (PEM).")] = "",
    ca_file: Annotated[
        str, flag("CA_FILE", "Authorities (PEM) for the service's certificate; else the system's.")
    ] = "",
    format: Format = None,
    schema_registry: Annotated[str, flag("SCHEMA_REGISTRY", "URL, for topics in the confluent format.")] = "",
    create_topics: Annotated[bool, flag("CREATE_TOPICS", "Create topics that are missing.")] = True,
    topic_partitions: Annotated[int, flag("TOPIC_PARTITIONS", "Partitions of topics that are created.")] = 4,
    replication_factor: ReplicationFactor = 0,
    min_insync_replicas: MinInsyncReplicas = 0,
    kafka_config: KafkaConfig = None,
    kafka_config_file: KafkaConfigFile = None,
    metrics_port: Annotated[int, flag("METRICS_PORT", "Port of Prometheus metrics; 0: none.")] = 0,
    metrics_host: Annotated[
        str, flag("METRICS_HOST", "Address for --metrics-port; 0.0.0.0 shows them to everybody.")
    ] = "127.0.0.1",
    json_output: Annotated[bool, typer.Option("--json", help="At the end print the run in numbers, as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Answer session-lookup-requests from the service, exactly once, until SIGTERM.

    200 with {"clientCountryCode": ".."} is FOUND, 404 NOT_FOUND, anything else after all attempts FAILED. While the
    service as a whole is down, requests wait.
    """
    check_given(bootstrap_servers=bootstrap_servers, url_template=url_template)
    for name, value in (
        ("--concurrency", concurrency),
        ("--attempts", attempts),
        ("--breaker-threshold", breaker_threshold),
    ):
        if value < 1:
            raise ConfigError(f"{name} {value}: expected at least 1.")
    if rate_limit < 0:
        raise ConfigError(f"--rate-limit {rate_limit}: expected 0 or more.")
    created_as = replication(replication_factor, min_insync_replicas)
    by_topic = formats(format or [], schema_registry, [REQUESTS, RESULTS])
    read = converters(by_topic, [topics.INPUTS[topics.LOOKUP_RESULTS], REQUESTS_INPUT], schema_registry or None)
    policy = Policy(
        attempts=attempts,
        timeout_s=parse_ms(timeout, "--timeout", 1) / 1000,
        deadline_s=parse_ms(deadline, "--deadline", 1) / 1000,
        backoff_s=parse_ms(backoff, "--backoff", 1) / 1000,
        concurrency=concurrency,
    )
    service = ServiceConfig(
        url_template=url_template,
        bearer_token_file=_path(bearer_token_file),
        client_cert=_path(client_cert),
        client_key=_path(client_key),
        ca_file=_path(ca_file),
    )
    service.check()
    with tempfile.TemporaryDirectory(prefix="moneystate-lookups-") as scratch:
        config = WorkerConfig(
            bootstrap_servers=bootstrap_servers,
            group=group_id or f"{topic_prefix}session-lookup-worker",
            worker_id=worker_id or uuid.uuid4().hex,
            requests=topic_prefix + REQUESTS,
            results=topic_prefix + RESULTS,
            data=_path(data) or Path(scratch) / "index",
            service=service,
            policy=policy,
            extra=kafka_settings(kafka_config_file, kafka_config),
            rate_limit=rate_limit or None,
            breaker_threshold=breaker_threshold,
            from_requests=read.get(REQUESTS_INPUT.code),
            from_results=read.get(topics.LOOKUP_RESULTS),
            to_results=writers(by_topic, [RESULTS], topic_prefix, schema_registry or None).get(0),
        )
        wanted = [
            TopicSpec(config.requests, topic_partitions),
            TopicSpec(config.results, topic_partitions, keep_for_good=True),
        ]

        def ensure() -> None:
            ensure_topics(admin_client(bootstrap_servers, config.extra), wanted, create_topics, created_as)

        totals = _run(config, (metrics_host, metrics_port), ensure, quiet)
    if json_output:
        typer.echo(json.dumps(totals))


def _run(config: WorkerConfig, metrics_at: tuple[str, int], ensure: Callable[[], None], quiet: bool) -> dict[str, Any]:
    metrics = Metrics()
    worker = Worker(config, metrics)
    check_reachable(config.bootstrap_servers, config.extra)
    ensure()
    _serve(metrics, *metrics_at)
    set_up_log()
    with LookupDisplay(worker, metrics, quiet) as display:
        asyncio.run(_until_told(worker, display))
    return display.totals()


async def _until_told(worker: Worker, display: LookupDisplay) -> None:
    loop = asyncio.get_running_loop()
    last_resort = threading.Timer(END_S, os._exit, (JobError.exit_code,))
    last_resort.daemon = True

    def end() -> None:
        worker.stop()
        with contextlib.suppress(RuntimeError):  # the second signal: it runs already
            last_resort.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    shown = asyncio.create_task(_show(display))
    try:
        await worker.run()
    finally:
        shown.cancel()
        last_resort.cancel()


async def _show(display: LookupDisplay) -> None:
    while True:
        display.show()
        await asyncio.sleep(SHOW_EVERY_S)


def _serve(metrics: Metrics, host: str, port: int) -> None:
    if not port:
        return
    try:
        start_http_server(port, host, metrics.registry)
    except OSError as e:
        raise SetupError(
            f"--metrics-host {host}, --metrics-port {port}: expected a free port of this machine, but {e}.",
            "choose another.",
        ) from None


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def set_up_log() -> None:
    """Lines on stderr: for people on a terminal, else as JSON."""
    shown = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
