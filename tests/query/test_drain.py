"""SIGTERM: health first, running calls finish, new ones are refused, watchers are told; kills leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from moneystate.devbroker import DevBroker
from moneystate.serving.client import Client
from moneystate.state.v1 import state_pb2, state_pb2_grpc
from tests.query import market_story, questions
from tests.query.market_story import MarketJob
from tests.query.serving import UP_S, Server, failure, new_cluster, reason_of, wait_for
from tests.query.story import begin, go_on, user

STATE: Any = state_pb2_grpc.StateStub  # generated without types
ANN = user("ann")


@pytest.fixture
def ending(broker: DevBroker, tmp_path: Path) -> Iterator[Server]:
    """A server that the test ends."""
    with Server(new_cluster(broker), tmp_path / "replica", "--grace", "20s") as running:
        begin(running.job)
        yield running.caught_up(0)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended. A zombie has: nobody has asked how yet."""
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def health(server: Server, service: str = "") -> health_pb2.HealthCheckResponse.ServingStatus:
    with grpc.insecure_channel(server.address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        return health_pb2_grpc.HealthStub(channel).Check(request, timeout=UP_S).status


def test_a_replica_that_has_caught_up_is_healthy(market_server: Server) -> None:
    for service in ("", *questions.SERVICES):
        wait_for(lambda name=service: health(market_server, name) == health_pb2.HealthCheckResponse.SERVING)


def test_reflection_tells_the_services(market_server: Server) -> None:
    with grpc.insecure_channel(market_server.address) as channel:
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        answer = next(iter(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(asked)))
    names = {s.name for s in answer.list_services_response.service}
    assert names > {*questions.SERVICES, "grpc.health.v1.Health"}


def test_a_replica_loads_then_answers_then_drains(broker: DevBroker, tmp_path: Path) -> None:
    """Before the first version it says that it loads; SIGTERM ends streams, and calls are refused."""
    cluster = new_cluster(broker)
    get = questions.get("ann")
    with Server(cluster, tmp_path / "replica", job=MarketJob(cluster)) as server:
        with server.client() as client:
            assert health(server) == health_pb2.HealthCheckResponse.NOT_SERVING
            assert failure(lambda: client.call(*get)) == ("UNAVAILABLE", "NOT_CAUGHT_UP")
            market_story.begin(server.job)
            server.caught_up(0)
            assert questions.country(client.call(*get)) == "ES"
            processes = psutil.Process(server.process.pid).children(recursive=True)
            watch = client.stream(*questions.watch())
            next(watch)
            server.process.send_signal(signal.SIGTERM)
            assert failure(lambda: list(watch)) == ("UNAVAILABLE", "DRAINING")
            wait_for(lambda: failure_or_none(client, *get) == "UNAVAILABLE")
        assert server.process.wait(UP_S) == 0
        assert not alive(processes)


def failure_or_none(client: Client, call: str, request: Any) -> str:
    try:
        client.call(call, request)
    except grpc.RpcError as e:
        return reason_of(e)[0]
    return ""


@pytest.mark.parametrize("victim", [0, 1], ids=["the follower", "a worker"])
def test_a_child_that_dies_ends_the_whole_with_code_5(ending: Server, victim: int) -> None:
    children = sorted(psutil.Process(ending.process.pid).children(), key=lambda p: p.pid)
    children[victim].kill()
    assert ending.process.wait(UP_S) == 5
    assert "ended with code -9" in ending.output()
    assert not alive(children)


def test_children_do_not_outlive_a_server_that_is_killed(ending: Server) -> None:
    children = psutil.Process(ending.process.pid).children(recursive=True)
    ending.process.kill()
    ending.process.wait(UP_S)
    wait_for(lambda: not alive(children))


@contextmanager
def frozen(broker: DevBroker) -> Iterator[Callable[[], None]]:
    """The broker answers nothing until the block ends, or what it gives is called."""
    process = psutil.Process(broker.pid)
    process.suspend()
    try:
        yield process.resume
    finally:
        process.resume()


def forget_under_way(channel: grpc.Channel) -> Any:
    """A call that waits for the broker. The server has begun it: it has answered a later one on the same connection."""
    forget = STATE(channel).Forget.future(state_pb2.ForgetRequest(key="ann"))
    STATE(channel).Get(ANN[1], timeout=UP_S)
    return forget


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_for_the_whole_group_ends_it_in_good_order(
    broker: DevBroker, tmp_path: Path, number: signal.Signals
) -> None:
    with Server(new_cluster(broker), tmp_path / "replica") as server:
        os.killpg(server.process.pid, number)
        assert server.process.wait(UP_S) == 0, server.output()


def test_a_call_that_is_under_way_at_sigterm_is_answered(ending: Server, broker: DevBroker) -> None:
    with grpc.insecure_channel(ending.address) as channel, ending.client() as other, frozen(broker) as thaw:
        forget = forget_under_way(channel)
        ending.process.send_signal(signal.SIGTERM)
        wait_for(lambda: failure_or_none(other, *ANN) == "UNAVAILABLE")
        assert not forget.done()
        thaw()
        assert forget.result(UP_S).request.topic == "user-events"
    assert ending.process.wait(UP_S) == 0


def test_a_call_that_the_server_cuts_is_not_put_down_to_its_caller(broker: DevBroker, tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    flags = ("--grace", "1s", "--audit-log", str(audit))
    with Server(new_cluster(broker), tmp_path / "replica", *flags) as server:
        begin(server.job)
        server.caught_up(0)
        with grpc.insecure_channel(server.address) as channel, frozen(broker):
            forget = forget_under_way(channel)
            server.process.send_signal(signal.SIGTERM)
            assert failure(lambda: forget.result(UP_S))[0] == "UNAVAILABLE"
        assert server.process.wait(UP_S) == 0
    assert outcomes(audit, "State.Forget") == ["UNAVAILABLE"]


def test_each_message_of_a_watch_is_on_record_as_of_a_stream_that_goes_on(broker: DevBroker, tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    with Server(new_cluster(broker), tmp_path / "replica", "--audit-log", str(audit)) as server:
        begin(server.job)
        server.caught_up(0)
        with server.client() as client:
            watch = client.stream("State.Watch", state_pb2.WatchRequest(key="ann"))
            next(watch)
            go_on(server.job)
            changed = next(answer for answer in watch if answer.changes)
            (known,) = [json.loads(r.json) for r in changed.changes if r.name.state == "user"]
            assert known["info"]["residentCountryCode"] == "PT"
            wait_for(lambda: outcomes(audit, "State.Watch"))
            server.process.send_signal(signal.SIGTERM)
            assert failure(lambda: list(watch)) == ("UNAVAILABLE", "DRAINING")
        assert server.process.wait(UP_S) == 0
    assert set(outcomes(audit, "State.Watch")) == {"STREAMING"}


def outcomes(audit: Path, call: str) -> list[str]:
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    return [line["outcome"] for line in lines if line["call"] == call]
