"""`moneystate serve` from outside: metrics and traces of all workers, addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from moneystate.devbroker import DevBroker
from moneystate.serving.addresses import split
from moneystate.serving.client import Client
from moneystate.state.v1 import state_pb2_grpc
from tests.ops.rules import check_healthy
from tests.ports import free_port
from tests.query.conftest import Moneystate
from tests.query.serving import UP_S, Server, failure, new_cluster, wait_for
from tests.query.story import begin, user
from tests.scrape import health, scraped
from tests.telemetry.receivers import Received, Receiver

CALLS_EACH = 3
MAX_CONNECTIONS = 64
STATE: Any = state_pb2_grpc.StateStub  # generated without types


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment().items():
            patch.setenv(name, value)
        yield running


@pytest.fixture(scope="module")
def measured(
    broker: DevBroker, tmp_path_factory: pytest.TempPathFactory, metrics_port: int, receiver: Receiver
) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("replica")
    flags = ("--workers", "2", "--metrics-port", str(metrics_port), "--traces")
    with Server(new_cluster(broker), data, *flags) as running:
        begin(running.job)
        yield running.caught_up(0)


def connect_to_all_workers(server: Server, stack: ExitStack) -> list[grpc.Channel]:
    """The system spreads connections over the workers: as many as it takes until each has one."""
    wait_for(lambda: busy_workers(server) == 0)
    channels: list[grpc.Channel] = []
    while busy_workers(server) < 2:
        assert len(channels) < MAX_CONNECTIONS
        of_its_own = [("grpc.use_local_subchannel_pool", 1)]
        channels.append(stack.enter_context(grpc.insecure_channel(server.address, of_its_own)))
        grpc.channel_ready_future(channels[-1]).result(UP_S)
    return channels


def busy_workers(server: Server) -> int:
    """How many processes have connections of clients."""
    port = split(server.address, "address")[1]
    children = psutil.Process(server.process.pid).children(recursive=True)
    return sum(
        any(c.laddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in child.net_connections("tcp"))
        for child in children
    )


def samples(port: int) -> dict[tuple[str, str, str], float]:
    """Returns the samples by name, method and code."""
    return {(s.name, s.labels.get("method", ""), s.labels.get("code", "")): s.value for s in scraped(port).samples()}


def test_metrics_are_the_sum_over_all_workers(
    measured: Server, metrics_port: int, receiver: Receiver, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        channels = connect_to_all_workers(measured, stack)
        for channel in channels:
            stub = STATE(channel)
            for _ in range(CALLS_EACH):
                stub.Get(user("ann")[1], timeout=UP_S)
            assert failure(lambda s=stub: s.Get(user("nobody")[1]))[0] == "NOT_FOUND"
    calls = "moneystate_query_calls_total"
    wait_for(lambda: samples(metrics_port).get((calls, "State.Get", "NOT_FOUND")) == len(channels))
    values = samples(metrics_port)
    assert values[calls, "State.Get", "OK"] == CALLS_EACH * len(channels)
    assert values["moneystate_query_seconds_count", "State.Get", ""] == (CALLS_EACH + 1) * len(channels)
    wait_for(lambda: samples(metrics_port)["moneystate_replica_caught_up", "", ""] == 1)  # said each second
    page = scraped(metrics_port)
    assert page.value("moneystate_replica_keys") == 1
    check_healthy(page, ("moneystate_replica_", "moneystate_query_"), tmp_path)
    wait_for(lambda: len(asked(receiver.spans())) == (CALLS_EACH + 1) * len(channels))
    sent = scraped(metrics_port).value("moneystate_query_spans_total", "sent")
    assert sent >= (CALLS_EACH + 1) * len(channels)
    check_calls(receiver.spans(), len(channels))


def asked(spans: list[Received]) -> list[Received]:
    return [s for s in spans if s.attributes["rpc.method"] == "Get"]


def check_calls(spans: list[Received], callers: int) -> None:
    """One span for each call, without what was asked for."""
    calls = asked(spans)
    assert {(s.service, s.name, s.span.kind) for s in calls} == {
        ("money-enrichment-queries", "moneystate.state.v1.State/Get", Span.SPAN_KIND_SERVER)
    }
    answers = Counter((s.attributes["rpc.grpc.status_code"], s.attributes["moneystate.rows"]) for s in calls)
    assert answers == {(0, 1): CALLS_EACH * callers, (grpc.StatusCode.NOT_FOUND.value[0], 0): callers}
    assert {s.attributes["moneystate.version"].rpartition("/")[2] for s in calls} == {"0"}
    assert not {"ann", "nobody"} & {value for s in spans for value in s.attributes.values() if isinstance(value, str)}
    assert {s.span.status.code for s in calls} == {Status.STATUS_CODE_UNSET}  # NOT_FOUND is no fault of the server


def test_a_call_continues_its_callers_trace(
    measured: Server, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, moneystate: Moneystate
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    monkeypatch.setenv("TRACEPARENT", f"00-{trace}-b7ad6b7169203331-01")
    assert moneystate("ask", "enrichment", "status", "--address", measured.address, "--traces").code == 0
    wait_for(lambda: len(in_trace(receiver, trace)) == 2)
    by_service = {s.service: s for s in in_trace(receiver, trace)}
    client, server = by_service["moneystate-ask"], by_service["money-enrichment-queries"]
    assert client.span.kind == Span.SPAN_KIND_CLIENT
    assert client.span.parent_span_id.hex() == "b7ad6b7169203331"
    assert server.span.parent_span_id == client.span.span_id
    assert client.name == server.name == "moneystate.state.v1.Status/GetStatus"


def in_trace(receiver: Receiver, trace: str) -> list[Received]:
    return [s for s in receiver.spans() if s.span.trace_id.hex() == trace]


def test_a_server_on_ipv6_prints_an_address_that_clients_can_use(
    broker: DevBroker, tmp_path: Path, moneystate: Moneystate
) -> None:
    metrics = ("--metrics-port", str(free_port()))
    with Server(new_cluster(broker), tmp_path / "replica", "--listen", "[::1]:0", *metrics) as server:
        assert health(int(metrics[1])) == (503, "not caught up: 0 records of the changelog are not read yet")
        begin(server.job)
        server.caught_up(0)
        wait_for(lambda: health(int(metrics[1])) == (200, "ready"))
        assert health(int(metrics[1]), "/livez") == (200, "alive")
        assert listens_at(server, int(metrics[1])) == {"127.0.0.1"}  # wherever the server answers
        host, port = split(server.address, "address")
        assert (host, port != 0) == ("::1", True)
        with server.client() as client:
            assert get(client) == "ann"
        assert moneystate("ask", "enrichment", "get", "ann", "--address", server.address).code == 0
        assert moneystate("checkpoint", "fingerprint", server.address).code == 0


def listens_at(server: Server, port: int) -> set[str]:
    sockets = psutil.Process(server.process.pid).net_connections("tcp")
    return {s.laddr.ip for s in sockets if s.laddr.port == port and s.status == psutil.CONN_LISTEN}


def get(client: Client) -> str:
    return str(client.call(*user("ann")).records[0].name.key)
