"""`moneystate serve`: keeps a replica of the state and answers queries from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from moneystate import log
from moneystate.cli import services
from moneystate.cli.connection import DEFAULT_ADDRESS
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import ClusterFlags, MetricsFlags, SecurityFlags, StoreFlags
from moneystate.cli.option import DURATION, NUMBER, PATH, PATH_OR_URI, Flags, Panel, check_given, filled, flag
from moneystate.cli.options import Announce, GivenService, Grace, Listen, ReplicaFolder, Traces, audit_target
from moneystate.cli.tracing import check_traces
from moneystate.errors import SavepointError
from moneystate.job.local_path import is_local
from moneystate.job.storage import savepoints
from moneystate.replica.files import generation
from moneystate.runtime.job import service_spec
from moneystate.runtime.plans import plan_of
from moneystate.serving import supervisor
from moneystate.serving.limits import Limits
from moneystate.serving.options import Security, ServeOptions
from moneystate.serving.state.served import ServedService

MAX_WORKERS = 64
SNAPSHOT = "--from-snapshot"


@dataclass(frozen=True)
class ServeFlags(Flags):
    data: ReplicaFolder
    cluster: ClusterFlags
    service: GivenService
    security_flags: SecurityFlags
    metrics_flags: MetricsFlags
    store_flags: StoreFlags
    listen: Listen = DEFAULT_ADDRESS
    announce: Announce = ""
    from_snapshot: str = flag(
        "", "A savepoint from which an empty --data is loaded. The changelog is read from there on.",
        Panel.server, PATH_OR_URI, shown="the whole changelog is read",
    )  # fmt: skip
    history: str = flag("24h", "How long versions are kept.", Panel.server, DURATION)
    history_versions: int = flag(
        0, "Keep no more than this many versions; 0: only --history limits them.", Panel.server, NUMBER, least=0
    )
    workers: int = flag(
        1, "Processes that answer queries, in addition to the follower.", Panel.server, NUMBER, least=1,
        most=MAX_WORKERS,
    )  # fmt: skip
    grace: Grace = "10s"
    traces: Traces = False
    scopes: str = flag(
        "", "What callers without tokens may do.", Panel.security, "SCOPE,...", shown="on loopback everything"
    )
    audit_log: Annotated[str, audit_target(shown="- where callers have to say who they are")] = ""
    page_token_key: str = flag(
        "", "File that replicas share so that listings continue at another.", Panel.security, PATH,
        shown="one in --data",
    )  # fmt: skip
    max_streams: int = flag(
        Limits.streams, "Streams at once, in each worker. More are refused.", Panel.limits, NUMBER, least=1
    )
    max_streams_per_caller: int = flag(
        Limits.streams_per_caller,
        "The same of one caller: a token's subject, a certificate, or a machine. More are refused.",
        Panel.limits, NUMBER, least=1,
    )  # fmt: skip
    max_calls: int = flag(
        Limits.calls, "Listings and other long calls at once, in each worker. More are refused.", Panel.limits, NUMBER,
        least=1,
    )  # fmt: skip
    max_calls_per_caller: int = flag(
        Limits.calls_per_caller, "The same of one caller. More are refused.", Panel.limits, NUMBER, least=1
    )


def serve(context: typer.Context, flags: ServeFlags) -> None:
    """Answer queries about the state over gRPC.

    A replica follows the state's changelog and answers at any version that it still has. The command ends with code 0
    after SIGTERM, once running calls have been answered. See docs/queries.md.
    """
    check_given(data=flags.data)
    if flags.traces:
        check_traces()
    reference = services.chosen(context, flags.service)
    options = filled(
        ServeOptions,
        flags,
        announced=flags.announce,
        from_snapshot=_snapshot(flags.from_snapshot, flags.data, reference, flags.store_flags),
        history_ms=parse_ms(flags.history, "--history"),
        history_versions=flags.history_versions or None,
        grace_s=parse_ms(flags.grace, "--grace") / 1000,
        kafka_config=flags.cluster.settings(),
        security=filled(Security, flags, client_ca=flags.security_flags.tls_ca),
        limits=Limits(flags.max_streams, flags.max_streams_per_caller, flags.max_calls, flags.max_calls_per_caller),
    )
    plan_of(reference).queries  # noqa: B018 (it refuses those that cannot be called)
    served = ServedService(reference)
    log.add_fields(service=served.name)
    supervisor.serve(options, served)


def _snapshot(address: str, data: str, reference: str, flags: StoreFlags) -> str:
    """The folder of the savepoint on this machine; empty: none is needed. Raises SavepointError."""
    if not address or (generation(data) is not None and not is_local(address)):
        return ""
    flags.configure()
    made_by, job = savepoints.manifest_of(address, SNAPSHOT).job, service_spec(reference).name
    if made_by != job:
        raise SavepointError(
            f"{SNAPSHOT} {address}: expected a state of {job}, found one of {made_by}.",
            "give the --service of the savepoint, or another savepoint.",
        )
    return str(savepoints.fetched(address, SNAPSHOT))
