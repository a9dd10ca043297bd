"""The transport by itself: every kind of method, every end of a call, over real sockets with grpcio's own client."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from moneystate.rpc.core import Queue
from moneystate.rpc.server import Server
from tests.query.serving import UP_S, wait_for
from tests.rpc.serving import OPTIONS, Running

UNARY = ["/test/point", "/test/unary"]
STREAMS = ["/test/stream", "/test/chat"]


@pytest.fixture
def running() -> Iterator[Running]:
    with Running() as there:
        yield there


@pytest.fixture
def channel(running: Running) -> Iterator[grpc.Channel]:
    with running.channel() as there:
        yield there


def ask(channel: grpc.Channel, path: str, value: str, **more: Any) -> str:
    call: Any = channel.unary_unary(path, StringValue.SerializeToString, StringValue.FromString)
    return str(call(StringValue(value=value), **{"timeout": UP_S, **more}).value)


def begin(channel: grpc.Channel, path: str, value: str, **more: Any) -> Any:
    call: Any = channel.unary_stream(path, StringValue.SerializeToString, StringValue.FromString)
    return call(StringValue(value=value), **{"timeout": UP_S, **more})


def chat(channel: grpc.Channel, values: list[str]) -> list[str]:
    call: Any = channel.stream_stream("/test/chat", StringValue.SerializeToString, StringValue.FromString)
    return [m.value for m in call(iter([StringValue(value=v) for v in values]), timeout=UP_S)]


def error_of(call: Any) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("path", UNARY)
def test_a_request_has_one_answer(channel: grpc.Channel, path: str) -> None:
    assert ask(channel, path, "ann") == "ANN"
    assert ask(channel, path, "x" * 1_000_000) == "X" * 1_000_000


def test_streams(channel: grpc.Channel) -> None:
    assert [m.value for m in begin(channel, "/test/stream", "abc")] == ["a", "b", "c"]
    assert list(begin(channel, "/test/stream", "")) == []
    assert chat(channel, ["ab", "cd"]) == ["ba", "dc"]
    assert chat(channel, []) == []


@pytest.mark.parametrize("path", UNARY + STREAMS)
def test_a_status_that_the_handler_raises_goes_out_with_its_trailers(channel: grpc.Channel, path: str) -> None:
    error = error_of(lambda: list(begin(channel, path, "?")))
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "there is none")
    assert ("why-bin", b"\x00\x01") in error.trailing_metadata()


@pytest.mark.parametrize("path", UNARY + STREAMS)
def test_an_error_of_the_handler_is_internal_and_ends_no_more_than_its_call(
    channel: grpc.Channel, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = error_of(lambda: list(begin(channel, path, "!")))
    assert error.code() == grpc.StatusCode.INTERNAL
    assert "an error of the handler" not in error.details()
    (record,) = [r for r in caplog.records if path in r.getMessage()]
    assert "an error of the handler" in (record.exc_text or "")
    assert ask(channel, "/test/point", "ann") == "ANN"


@pytest.mark.parametrize("path", UNARY + STREAMS)
def test_bytes_that_are_no_request(channel: grpc.Channel, path: str) -> None:
    call: Any = channel.unary_stream(path)
    assert error_of(lambda: list(call(b"\xff\xff", timeout=UP_S))).code() == grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("path", [*UNARY, "/test/stream"])
def test_a_call_without_a_request_is_told_so(channel: grpc.Channel, path: str) -> None:
    call: Any = channel.stream_unary(path)
    error = error_of(lambda: call(iter([]), timeout=UP_S))
    assert (error.code(), error.details()) == (grpc.StatusCode.UNIMPLEMENTED, "expected one request, found none")


def test_a_method_that_is_not_there(channel: grpc.Channel) -> None:
    assert error_of(lambda: ask(channel, "/test/other", "ann")).code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_request_that_is_too_large(channel: grpc.Channel) -> None:
    large = "x" * (2 << 20)
    assert error_of(lambda: ask(channel, "/test/point", large)).code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_what_a_context_knows(running: Running, channel: grpc.Channel) -> None:
    ask(channel, "/test/point", "ann", metadata=(("who", "me"), ("raw-bin", b"\x00")), timeout=29.95)
    assert running.seen.peers[0].startswith("ipv4:127.0.0.1:")
    assert running.seen.metadata[0]["who"] == "me"
    assert running.seen.metadata[0]["raw-bin"] == b"\x00"
    assert 0.0 < running.seen.remaining_s[0] <= 30.0
    ask(channel, "/test/point", "ann", timeout=None)
    assert running.seen.remaining_s[1] > 1e6


@pytest.mark.parametrize(("path", "value"), [("/test/unary", "wait"), ("/test/stream", "abw")])
def test_a_task_ends_when_its_caller_goes(running: Running, channel: grpc.Channel, path: str, value: str) -> None:
    call = begin(channel, path, value)
    assert running.seen.waiting.wait(UP_S)
    call.cancel()
    assert running.seen.cancelled.wait(UP_S)


@pytest.mark.parametrize(("path", "value"), [("/test/unary", "wait"), ("/test/stream", "abw")])
def test_a_task_ends_at_its_deadline(running: Running, channel: grpc.Channel, path: str, value: str) -> None:
    error = error_of(lambda: list(begin(channel, path, value, timeout=0.5)))
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    if running.seen.waiting.is_set():  # else the time was up before it began
        assert running.seen.cancelled.wait(UP_S)


def test_a_task_that_is_cancelled_from_within_ends_its_call(channel: grpc.Channel) -> None:
    assert error_of(lambda: ask(channel, "/test/unary", "cancelled")).code() == grpc.StatusCode.CANCELLED


def test_a_caller_that_vanishes_ends_its_tasks(running: Running) -> None:
    with running.channel() as channel:
        call = begin(channel, "/test/stream", "abw")
        assert running.seen.waiting.wait(UP_S)
        assert not call.done()
    assert running.seen.cancelled.wait(UP_S)


def test_a_slow_caller_holds_up_nobody_else(channel: grpc.Channel) -> None:
    slow = begin(channel, "/test/stream", "x" * 100_000)  # more than fits into the windows, and is not read
    assert next(slow).value == "x"
    assert ask(channel, "/test/point", "ann") == "ANN"
    slow.cancel()


def test_calls_of_all_kinds_at_once(running: Running) -> None:
    def some(n: int) -> None:
        with running.channel() as channel:
            for m in range(50):
                name = f"u{n}-{m}"
                assert ask(channel, "/test/point", name) == name.upper()
                assert ask(channel, "/test/unary", "for 0.001") == "FOR 0.001"
                assert "".join(a.value for a in begin(channel, "/test/stream", name.replace("w", ""))) == name
                assert chat(channel, [name]) == [name[::-1]]
                begin(channel, "/test/stream", "abc").cancel()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(some, range(8)))
    wait_for(lambda: not running.server.tasks)


def test_at_stop_what_runs_is_finished_and_what_is_new_refused(running: Running, channel: grpc.Channel) -> None:
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(ask, channel, "/test/unary", "for 1.0")
        wait_for(lambda: running.server.tasks)
        running.stop(UP_S)
        wait_for(lambda: running.server.stopping)
        with running.channel() as other:
            assert error_of(lambda: ask(other, "/test/point", "ann")).code() == grpc.StatusCode.UNAVAILABLE
        assert under_way.result(UP_S) == "FOR 1.0"
    running.thread.join(UP_S)
    assert not running.thread.is_alive()


def test_after_the_grace_what_runs_is_cut(running: Running, channel: grpc.Channel) -> None:
    call = begin(channel, "/test/unary", "wait")
    assert running.seen.waiting.wait(UP_S)
    running.stop(0.1)
    assert error_of(lambda: list(call)).code() == grpc.StatusCode.UNAVAILABLE
    assert running.seen.cancelled.wait(UP_S)
    running.thread.join(UP_S)
    assert not running.thread.is_alive()


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Server(Queue(), [*OPTIONS, ("grpc.so_reuseport", 0)])
        with pytest.raises(RuntimeError):
            server.listen(f"127.0.0.1:{taken.getsockname()[1]}", None)


def test_an_event_that_goes_wrong_ends_no_more_than_itself(running: Running, channel: grpc.Channel) -> None:
    def broken(_: Any) -> bool:
        raise ValueError("in the transport")

    running.server.methods[b"/test/broken"] = broken
    error_of(lambda: ask(channel, "/test/broken", "ann", timeout=0.5))
    assert ask(channel, "/test/point", "ann") == "ANN"


def test_a_timer_of_asyncio_goes_on_while_calls_come(running: Running, channel: grpc.Channel) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            ticks.append(time.monotonic())

    running.running.call_soon_threadsafe(lambda: running.server.spawn(tick()))
    for n in range(300):
        ask(channel, "/test/point", str(n))
    wait_for(lambda: len(ticks) > 3)
    running.running.call_soon_threadsafe(lambda: [task.cancel() for task in running.server.tasks])


def test_what_many_streams_send_together_does_not_take_a_turn_of_the_loop_for_each(
    running: Running, channel: grpc.Channel
) -> None:
    """Calls of others stand behind it in the queue."""
    streams = [begin(channel, "/test/stream", "ag") for _ in range(64)]
    assert [next(stream).value for stream in streams] == ["a"] * 64
    counting = asyncio.run_coroutine_threadsafe(running.open_gate(), running.running)
    assert [next(stream).value for stream in streams] == ["g"] * 64
    wait_for(lambda: len(running.seen.told_at) == 64)
    running.stop(0.0)
    counting.result(UP_S)
    assert max(running.seen.told_at) < 32
