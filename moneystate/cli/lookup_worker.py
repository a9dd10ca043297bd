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
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from moneystate import log
from moneystate.cli import services
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClientFlags, ClusterFlags, FormatFlags, MetricsFlags, NewTopicFlags
from moneystate.cli.lookup_display import LookupDisplay
from moneystate.cli.option import DURATION, NUMBER, PATH, Flags, Panel, check_given, filled, flag, option
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


@dataclass(frozen=True)
class WorkerFlags(Flags):
    cluster: ClusterFlags
    format_flags: FormatFlags
    new_topics: NewTopicFlags
    client_flags: ClientFlags
    metrics_flags: MetricsFlags
    lookup: str = flag("", "The lookup to work for.", Panel.run, "NAME", shown="the service's only one")
    group_id: Annotated[str, consumer_group(shown="the topic prefix and NAME-worker")] = ""
    worker_id: str = flag(
        "",
        "A name of this worker alone that it keeps over restarts: what a killed worker left open then ends at its "
        "restart, not by a timeout.",
        Panel.run, "NAME", shown="made up",
    )  # fmt: skip
    index: str = flag("", "Folder of the index on disk.", Panel.run, PATH, shown="temporary, rebuilt each time")
    concurrency: int = flag(100, "Calls to the service at the same time.", Panel.http, NUMBER, least=1)
    call_timeout: str = flag("1s", "Of one call.", Panel.http, DURATION)
    attempts: int = flag(3, "Calls for a path before its requests are FAILED.", Panel.http, NUMBER, least=1)
    deadline: str = flag("10s", "Of all calls for a path, and the waits between them.", Panel.http, DURATION)
    backoff: str = flag("100ms", "Before the second call; then twice as long each time.", Panel.http, DURATION)
    rate_limit: float = flag(0.0, "Calls a second at most; 0: as many as there are.", Panel.http, NUMBER, least=0)
    breaker_threshold: int = flag(
        10, "So many failed calls without a success among them: the service is down.", Panel.http, NUMBER, least=1
    )
    create_topics: CreateTopics = True
    json_output: Json = False
    quiet: Quiet = False

    def policy(self) -> Policy:
        """Raises ConfigError."""
        return filled(
            Policy,
            self,
            timeout_s=parse_ms(self.call_timeout, "--call-timeout", 1) / 1000,
            deadline_s=parse_ms(self.deadline, "--deadline", 1) / 1000,
            backoff_s=parse_ms(self.backoff, "--backoff", 1) / 1000,
        )

    def http_service(self, url: str) -> ServiceConfig:
        """Raises ConfigError."""
        files = self.client_flags
        config = ServiceConfig(
            url, _path(files.token_file), _path(files.tls_cert), _path(files.tls_key), _path(files.tls_ca)
        )
        config.check()
        return config


def lookup_worker(
    context: typer.Context,
    service: Annotated[
        str, typer.Argument(metavar="SERVICE", help="Service: a short name, or MODULE:NAME with a module or its file.")
    ],
    url: Annotated[
        str,
        option("url", "Where the HTTP service is, such as https://host: the lookup has the path.", Panel.http, "URL"),
    ],
    flags: WorkerFlags,
) -> None:
    """Answer the requests of a lookup from an HTTP service.

    Each request is answered exactly once, until SIGTERM. 200 with the members that the reply takes is FOUND, 404
    NOT_FOUND, anything else after all attempts FAILED. While the HTTP service as a whole is down, requests wait.
    """
    check_given(url=url)
    created_as, prefix = flags.new_topics.replication(), flags.cluster.topic_prefix
    reference = services.chosen(context, service)
    plan = _lookup_of(reference, flags.lookup)
    requests, replies = plan.lookup.requests.topic, plan.lookup.replies.topic
    declared = {one.topic: one.format for one in (plan.lookup.requests, plan.lookup.replies)}
    by_topic = flags.format_flags.by_topic([requests, replies], declared)
    inputs = [InputTopic(REQUESTS, requests, False, 0), InputTopic(REPLIES, replies, False, 0)]
    registry = flags.format_flags.schema_registry or None
    read = converters(by_topic, inputs, registry, service=reference)
    policy, http_service = flags.policy(), flags.http_service(url)
    with tempfile.TemporaryDirectory(prefix="moneystate-lookups-") as scratch:
        config = filled(
            WorkerConfig,
            flags,
            lookup=plan,
            group=flags.group_id or f"{prefix}{plan.name.replace('_', '-')}-worker",
            worker_id=flags.worker_id or uuid.uuid4().hex,
            requests=prefix + requests,
            results=prefix + replies,
            data=_path(flags.index) or Path(scratch) / "index",
            service=http_service,
            policy=policy,
            extra=flags.cluster.settings(),
            rate_limit=flags.rate_limit or None,
            from_requests=read.get(REQUESTS),
            from_results=read.get(REPLIES),
            to_results=writers(by_topic, [replies], prefix, registry, reference).get(0),
        )
        partitions = flags.new_topics.topic_partitions
        wanted = [
            TopicSpec(config.requests, partitions), TopicSpec(config.results, partitions, keep_for_good=True),
        ]  # fmt: skip

        def ensure() -> None:
            admin = admin_client(config.bootstrap_servers, config.extra)
            ensure_topics(admin, wanted, flags.create_topics, created_as)

        totals = _run(config, flags.metrics_flags, ensure, flags.quiet)
    if flags.json_output:
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
