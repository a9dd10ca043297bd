"""`moneystate lookup-worker`: answers the requests of a lookup from an HTTP service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from moneystate import log
from moneystate.cli import services
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClientFlags, ClusterFlags, FormatFlags, MetricsFlags, NewTopicFlags
from moneystate.cli.lookup_display import LookupDisplay
from moneystate.cli.option import DURATION, NUMBER, PATH, Panel, check_given, option
from moneystate.cli.options import CreateTopics, Json, Quiet, consumer_group
from moneystate.engine.processor import InputTopic
from moneystate.errors import ConfigError, JobError
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.convert import converters, writers
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.lookup.http_service import ServiceConfig
from moneystate.lookup.metrics import Metrics
from moneystate.lookup.resolver import Policy
from moneystate.lookup.worker import Worker, WorkerConfig
from moneystate.monitoring import Labelled, Pulse
from moneystate.runtime.lookup_plan import LookupPlan
from moneystate.runtime.plans import plan_of

REQUESTS, REPLIES = 0, 1  # the numbers of the topics
_log = log.get_log(__name__)

SHOW_EVERY_S = 0.5
# How long the worker may take to end after a signal. Calls to an unavailable broker can take minutes. A hard exit loses
# nothing: the protocol in docs/lookups.md allows a kill at any moment.
END_S = 20.0


def lookup_worker(
    context: typer.Context,
    service: Annotated[
        str, typer.Argument(metavar="SERVICE", help="Service: a short name, or MODULE:NAME with a module or its file.")
    ],
    url: Annotated[
        str,
        option("url", "Where the HTTP service is, such as https://host: the lookup has the path.", Panel.http, "URL"),
    ],
    cluster: ClusterFlags,
    format_flags: FormatFlags,
    new_topics: NewTopicFlags,
    client_flags: ClientFlags,
    metrics_flags: MetricsFlags,
    lookup: Annotated[
        str, option("lookup", "The lookup to work for.", Panel.run, "NAME", shown="the service's only one")
    ] = "",
    group_id: Annotated[str, consumer_group("the topic prefix and NAME-worker")] = "",
    worker_id: Annotated[
        str,
        option(
            "worker-id",
            "A name of this worker alone that it keeps over restarts: what a killed worker left open then ends at its "
            "restart, not by a timeout.",
            Panel.run,
            "NAME",
            shown="made up",
        ),
    ] = "",
    index: Annotated[
        str, option("index", "Folder of the index on disk.", Panel.run, PATH, shown="temporary, rebuilt each time")
    ] = "",
    concurrency: Annotated[
        int, option("concurrency", "Calls to the service at the same time.", Panel.http, NUMBER, least=1)
    ] = 100,
    call_timeout: Annotated[str, option("call-timeout", "Of one call.", Panel.http, DURATION)] = "1s",
    attempts: Annotated[
        int, option("attempts", "Calls for a path before its requests are FAILED.", Panel.http, NUMBER, least=1)
    ] = 3,
    deadline: Annotated[
        str, option("deadline", "Of all calls for a path, and the waits between them.", Panel.http, DURATION)
    ] = "10s",
    backoff: Annotated[
        str, option("backoff", "Before the second call; then twice as long each time.", Panel.http, DURATION)
    ] = "100ms",
    rate_limit: Annotated[
        float, option("rate-limit", "Calls a second at most; 0: as many as there are.", Panel.http, NUMBER, least=0)
    ] = 0.0,
    breaker_threshold: Annotated[
        int,
        option(
            "breaker-threshold",
            "So many failed calls without a success among them: the service is down.",
            Panel.http,
            NUMBER,
            least=1,
        ),
    ] = 10,
    create_topics: CreateTopics = True,
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Answer the requests of a lookup from an HTTP service.

    Each request is answered exactly once, until SIGTERM. 200 with the members that the reply takes is FOUND, 404
    NOT_FOUND, anything else after all attempts FAILED. While the HTTP service as a whole is down, requests wait.
    """
    check_given(url=url)
    created_as = new_topics.replication()
    reference = services.chosen(context, service)
    plan = _lookup_of(reference, lookup)
    requests, replies = plan.lookup.requests.topic, plan.lookup.replies.topic
    declared = {one.topic: one.format for one in (plan.lookup.requests, plan.lookup.replies)}
    by_topic = format_flags.by_topic([requests, replies], declared)
    inputs = [InputTopic(REQUESTS, requests, False, 0), InputTopic(REPLIES, replies, False, 0)]
    registry = format_flags.schema_registry or None
    read = converters(by_topic, inputs, registry, schemas=reference)
    policy = Policy(
        attempts=attempts,
        timeout_s=parse_ms(call_timeout, "--call-timeout", 1) / 1000,
        deadline_s=parse_ms(deadline, "--deadline", 1) / 1000,
        backoff_s=parse_ms(backoff, "--backoff", 1) / 1000,
        concurrency=concurrency,
    )
    http_service = ServiceConfig(
        base_url=url,
        bearer_token_file=_path(client_flags.token_file),
        client_cert=_path(client_flags.tls_cert),
        client_key=_path(client_flags.tls_key),
        ca_file=_path(client_flags.tls_ca),
    )
    http_service.check()
    with tempfile.TemporaryDirectory(prefix="moneystate-lookups-") as scratch:
        config = WorkerConfig(
            lookup=plan,
            bootstrap_servers=cluster.bootstrap_servers,
            group=group_id or f"{cluster.topic_prefix}{plan.name.replace('_', '-')}-worker",
            worker_id=worker_id or uuid.uuid4().hex,
            requests=cluster.topic_prefix + requests,
            results=cluster.topic_prefix + replies,
            data=_path(index) or Path(scratch) / "index",
            service=http_service,
            policy=policy,
            extra=cluster.settings(),
            rate_limit=rate_limit or None,
            breaker_threshold=breaker_threshold,
            from_requests=read.get(REQUESTS),
            from_results=read.get(REPLIES),
            to_results=writers(by_topic, [replies], cluster.topic_prefix, registry, reference).get(0),
        )
        wanted = [
            TopicSpec(config.requests, new_topics.topic_partitions),
            TopicSpec(config.results, new_topics.topic_partitions, keep_for_good=True),
        ]

        def ensure() -> None:
            ensure_topics(admin_client(cluster.bootstrap_servers, config.extra), wanted, create_topics, created_as)

        totals = _run(config, metrics_flags, ensure, quiet)
    if json_output:
        typer.echo(json.dumps(totals))


def _lookup_of(reference: str, name: str) -> LookupPlan:
    """The lookup of that name, or the service's only one. Raises ConfigError."""
    plan = plan_of(reference)
    known = {lookup.name: lookup for lookup in plan.lookups.values()}
    if name in known:
        return known[name]
    if not name and len(known) == 1:
        return next(iter(known.values()))
    given = f"--lookup {name}" if name else "no --lookup"
    raise ConfigError(
        f"{plan.name}: expected one of its lookups ({', '.join(known) or 'it declares none'}), found {given}.",
        "name one with --lookup." if known else "declare one with service.lookup(...).",
    )


def _run(config: WorkerConfig, flags: MetricsFlags, ensure: Callable[[], None], quiet: bool) -> dict[str, Any]:
    name = config.lookup.lookup.service
    log.add_fields(service=name)
    metrics = Metrics()
    worker = Worker(config, metrics)
    check_reachable(config.bootstrap_servers, config.extra)
    ensure()
    pulse = Pulse()
    flags.expose(Labelled({name: metrics.registry}), pulse.check, worker.ready)
    with LookupDisplay(worker, metrics, quiet) as display:
        asyncio.run(_run_until_signal(worker, display, pulse))
    return display.totals()


async def _run_until_signal(worker: Worker, display: LookupDisplay, pulse: Pulse) -> None:
    loop = asyncio.get_running_loop()
    last_resort = threading.Timer(END_S, _end_hard)
    last_resort.daemon = True

    def end() -> None:
        worker.stop()
        with contextlib.suppress(RuntimeError):  # after the first signal the timer is already running
            last_resort.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    shown = asyncio.create_task(_show(display, pulse))
    try:
        await worker.run()
    finally:
        shown.cancel()
        last_resort.cancel()


def _end_hard() -> None:
    code = JobError.exit_code
    log.get_log(__name__).error(
        f"expected to end within {END_S:.0f} s of the signal, but Kafka did not answer.", exit_code=code
    )
    os._exit(code)


async def _show(display: LookupDisplay, pulse: Pulse) -> None:
    while True:
        pulse.beat()
        display.show()
        await asyncio.sleep(SHOW_EVERY_S)


def _path(text: str) -> Path | None:
    return Path(text) if text else None
