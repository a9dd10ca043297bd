"""How much of a server its callers may take at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from moneystate.cli import main
from moneystate.devbroker import DevBroker
from moneystate.rpc.context import Abort
from moneystate.serving.audit import Audit
from moneystate.serving.callers import READ, Callers, machine
from moneystate.serving.calls import Calls
from moneystate.serving.client import Client
from moneystate.serving.limits import Limits, Rooms
from moneystate.serving.metrics import Metrics
from moneystate.state.v1 import state_pb2
from tests.log_lines import shown
from tests.query.serving import UP_S, Server, new_cluster, reason_of, wait_for
from tests.query.story import begin, user
from tests.query.test_calls import Caller as Context

STREAMS = 3
TOO_MANY = ("RESOURCE_EXHAUSTED", "TOO_MANY_STREAMS")


class Of(Context):
    """A context of a caller on some machine."""

    def __init__(self, machine: str) -> None:
        super().__init__()
        self.machine = machine

    def peer(self) -> str:
        return f"ipv4:{self.machine}:12345"


def test_long_calls_have_a_limit_by_caller_and_in_all() -> None:
    """And what has ended makes room."""
    rooms = Rooms(Limits(calls=3, calls_per_caller=2))
    calls = Calls(Callers(None, frozenset({READ}), False), Audit(""), Metrics(), rooms)

    async def run() -> None:
        end = asyncio.Event()

        async def listing(_: Any, __: Any) -> state_pb2.ListResponse:
            await end.wait()
            return state_pb2.ListResponse()

        unary: Any = calls.unary("State.List", READ, listing)

        async def refused(caller: str) -> str:
            with pytest.raises(Abort) as caught:
                await unary(state_pb2.ListRequest(), Of(caller))
            assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            return caught.value.details

        running = [
            asyncio.create_task(unary(state_pb2.ListRequest(), Of(address))) for address in ("10.0.0.1", "10.0.0.1")
        ]
        await asyncio.sleep(0)
        assert "no more than 2 calls at once of the caller" in await refused("10.0.0.1")
        running.append(asyncio.create_task(unary(state_pb2.ListRequest(), Of("10.0.0.2"))))
        await asyncio.sleep(0)
        assert "no more than 3 calls at once of the server" in await refused("10.0.0.3")
        end.set()
        await asyncio.gather(*running)
        assert await unary(state_pb2.ListRequest(), Of("10.0.0.1")) == state_pb2.ListResponse()

    asyncio.run(run())
    assert (rooms.calls.in_all, dict(rooms.calls.taken)) == (0, {})


@pytest.mark.parametrize(
    ("peer", "whose"), [("ipv4:10.0.0.1:5", "ipv4:10.0.0.1"), ("ipv6:[::1]:5", "ipv6:[::1]"), ("unix", "unix")]
)
def test_callers_without_a_name_are_told_apart_by_their_machine(peer: str, whose: str) -> None:
    assert machine(peer) == whose


@pytest.fixture(scope="module")
def limited(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = ("--max-streams-per-caller", str(STREAMS))
    with Server(new_cluster(broker), tmp_path_factory.mktemp("limited"), *flags) as running:
        begin(running.job)
        yield running.caught_up(0)


def watch(client: Client, _: grpc.Channel) -> Any:
    return client.stream("State.Watch", state_pb2.WatchRequest())


def watch_health(_: Client, channel: grpc.Channel) -> Any:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return stub.Watch(health_pb2.HealthCheckRequest(), timeout=UP_S)


def reflect(_: Client, channel: grpc.Channel) -> Any:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    ended = threading.Event()

    def requests() -> Iterator[reflection_pb2.ServerReflectionRequest]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        ended.wait(UP_S)

    stream = stub.ServerReflectionInfo(requests(), timeout=UP_S)
    if not stream.add_callback(ended.set):
        ended.set()  # it has ended already
    return stream


@pytest.mark.parametrize("opened", [watch, watch_health, reflect])
def test_streams_of_a_caller_have_a_limit_whatever_they_are(
    limited: Server, opened: Callable[[Client, grpc.Channel], Any]
) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(limited.client())
        channel = stack.enter_context(grpc.insecure_channel(limited.address))
        streams: list[Any] = []
        stack.callback(lambda: [stream.cancel() for stream in streams])

        def is_open() -> bool:
            """What an earlier test has given back may still be on its way."""
            stream = opened(client, channel)
            try:
                next(stream)
            except grpc.RpcError as e:
                assert reason_of(e) == TOO_MANY  # noqa: PT017
                return False
            streams.append(stream)
            return True

        for _ in range(STREAMS):
            wait_for(is_open)
        for other in (watch, watch_health, reflect):
            with pytest.raises(grpc.RpcError) as refused:
                next(other(client, channel))
            assert reason_of(refused.value) == TOO_MANY
        assert told(refused.value) == ({"limit": str(STREAMS), "of": "caller"}, 1)
        streams.pop().cancel()
        wait_for(is_open)
        assert client.call(*user("ann")).records[0].name.key == "ann"


def told(error: Any) -> tuple[dict[str, str], int]:
    """Metadata of the reason, and after how many seconds to try again."""
    status = rpc_status.from_call(error)
    assert status is not None
    info, retry = ErrorInfo(), RetryInfo()
    for detail in status.details:
        detail.Unpack(info)
        detail.Unpack(retry)
    return dict(info.metadata), retry.retry_delay.seconds


@pytest.mark.parametrize("name", ["--max-streams", "--max-streams-per-caller", "--max-calls", "--max-calls-per-caller"])
def test_a_limit_of_none_is_one_line_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    given = ["serve", "--bootstrap-servers", "127.0.0.1:1", "--service", "enrichment", "--data", "no/such", name, "0"]
    monkeypatch.setattr("sys.argv", ["moneystate", *given])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2
    assert shown(capfd.readouterr().err).startswith(f"error: {name} 0: expected a whole number, at least 1")
