"""`moneystate serve`: keeps a replica of the state and answers queries from it."""

from __future__ import annotations

from typing import Annotated

import typer

from moneystate import log
from moneystate.cli import services
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, MetricsFlags, SecurityFlags, StoreFlags
from moneystate.cli.option import DURATION, NUMBER, PATH, PATH_OR_URI, Panel, check_given, option
from moneystate.cli.options import Announce, GivenService, Grace, Listen, ReplicaFolder, Traces, audit_target
from moneystate.cli.tracing import check_traces
from moneystate.errors import SavepointError
from moneystate.job.local_path import is_local
from moneystate.job.storage import savepoints
from moneystate.replica.files import generation
from moneystate.runtime.job import plain_service
from moneystate.runtime.plans import plan_of
from moneystate.serving import supervisor
from moneystate.serving.limits import Limits
from moneystate.serving.options import Security, ServeOptions
from moneystate.serving.state.served import ServedService

DEFAULT_LISTEN = "127.0.0.1:8484"
MAX_WORKERS = 64
SNAPSHOT = "--from-snapshot"


def _limit(name: str, help: str) -> typer.models.OptionInfo:
    return option(name, f"{help} More are refused.", Panel.limits, NUMBER, least=1)


def serve(
    context: typer.Context,
    data: ReplicaFolder,
    cluster: ClusterFlags,
    service: GivenService,
    security_flags: SecurityFlags,
    metrics_flags: MetricsFlags,
    store_flags: StoreFlags,
    listen: Listen = DEFAULT_LISTEN,
    announce: Announce = "",
    from_snapshot: Annotated[
        str,
        option(
            "from-snapshot",
            "A savepoint from which an empty --data is loaded. The changelog is read from there on.",
            Panel.server,
            PATH_OR_URI,
            shown="the whole changelog is read",
        ),
    ] = "",
    history: Annotated[str, option("history", "How long versions are kept.", Panel.server, DURATION)] = "24h",
    history_versions: Annotated[
        int,
        option(
            "history-versions",
            "Keep no more than this many versions; 0: only --history limits them.",
            Panel.server,
            NUMBER,
            least=0,
        ),
    ] = 0,
    workers: Annotated[
        int,
        option(
            "workers",
            "Processes that answer queries, in addition to the follower.",
            Panel.server,
            NUMBER,
            least=1,
            most=MAX_WORKERS,
        ),
    ] = 1,
    grace: Grace = "10s",
    traces: Traces = False,
    scopes: Annotated[
        str,
        option(
            "scopes", "What callers without tokens may do.", Panel.security, "SCOPE,...", shown="on loopback everything"
        ),
    ] = "",
    audit_log: Annotated[str, audit_target("- where callers have to say who they are")] = "",
    page_token_key: Annotated[
        str,
        option(
            "page-token-key",
            "File that replicas share so that listings continue at another.",
            Panel.security,
            PATH,
            shown="one in --data",
        ),
    ] = "",
    max_streams: Annotated[int, _limit("max-streams", "Streams at once, in each worker.")] = Limits.streams,
    max_streams_per_caller: Annotated[
        int, _limit("max-streams-per-caller", "The same of one caller: a token's subject, a certificate, or a machine.")
    ] = Limits.streams_per_caller,
    max_calls: Annotated[
        int, _limit("max-calls", "Listings and other long calls at once, in each worker.")
    ] = Limits.calls,
    max_calls_per_caller: Annotated[
        int, _limit("max-calls-per-caller", "The same of one caller.")
    ] = Limits.calls_per_caller,
) -> None:
    """Answer queries about the state over gRPC.

    A replica follows the state's changelog and answers at any version that it still has. The command ends with code 0
    after SIGTERM, once running calls have been answered. See docs/queries.md.
    """
    check_given(data=data)
    if traces:
        check_traces()
    reference = services.chosen(context, service)
    options = ServeOptions(
        bootstrap_servers=cluster.bootstrap_servers,
        data=data,
        listen=listen,
        announced=announce,
        from_snapshot=_snapshot(from_snapshot, data, reference, store_flags),
        topic_prefix=cluster.topic_prefix,
        history_ms=parse_ms(history, "--history"),
        history_versions=history_versions or None,
        workers=workers,
        grace_s=parse_ms(grace, "--grace") / 1000,
        metrics_port=metrics_flags.metrics_port,
        metrics_host=metrics_flags.metrics_host,
        traces=traces,
        page_token_key=page_token_key,
        kafka_config=cluster.settings(),
        security=Security(
            *security_flags.given(), audit_log, scopes
        ),
        limits=Limits(max_streams, max_streams_per_caller, max_calls, max_calls_per_caller),
    )  # fmt: skip
    plan_of(reference).queries  # noqa: B018 (it refuses those that cannot be called)
    served = ServedService(reference)
    log.add_fields(service=served.name)
    supervisor.serve(options, served)


def _snapshot(address: str, data: str, reference: str, flags: StoreFlags) -> str:
    """The folder of the savepoint on this machine; empty: none is needed. Raises SavepointError."""
    if not address or (generation(data) is not None and not is_local(address)):
        return ""
    flags.configure()
    made_by, job = savepoints.manifest_of(address, SNAPSHOT).job, plain_service(reference).name
    if made_by != job:
        raise SavepointError(
            f"{SNAPSHOT} {address}: expected a state of {job}, found one of {made_by}.",
            "give the --service of the savepoint, or another savepoint.",
        )
    return str(savepoints.fetched(address, SNAPSHOT))
